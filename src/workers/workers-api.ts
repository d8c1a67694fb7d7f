import type { Core } from '../core/core.ts'
import { listWorkerPage, listWorkers, type Worker, type WorkerFilter, type WorkerPage } from './workers.ts'

export interface WorkersApi {
  /** Every worker ever seen: when last, how many deliveries it is attempting, and whether it is stale. */
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
