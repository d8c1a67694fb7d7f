import type { Core } from '../core/core.ts'
import { listWorkerPage, listWorkers, type Worker, type WorkerFilter, type WorkerPage } from './workers.ts'

export interface WorkersApi {
  /** Every worker seen: when last, what it has under way, and whether it has gone silent. */
  workers(): Promise<Worker[]>
  /** The same in pages, in the order in which they were first seen. */
  workerPage(filter?: WorkerFilter): Promise<WorkerPage>
}

export function createWorkersApi({ db }: Pick<Core, 'db'>): WorkersApi {
  return {
    workers: () => listWorkers(db),
    workerPage: (filter) => listWorkerPage(db, filter),
  }
}
