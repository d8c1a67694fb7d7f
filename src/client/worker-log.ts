import type { RunnerObserver } from '../consume/runner-parts.ts'
import type { LeasedDelivery } from '../domain/delivery.ts'

/** Where a worker logs problems. A pino logger fits. */
export interface WorkerLog {
  warn(details: object, message: string): void
  error(details: object, message: string): void
}

export const consoleLog: WorkerLog = {
  warn: (details, message) => console.warn(`posthorn: ${message}`, details),
  error: (details, message) => console.error(`posthorn: ${message}`, details),
}

export const silentLog: WorkerLog = { warn: () => undefined, error: () => undefined }

/** While the server is away every try fails, so at most one line in this time is logged. */
const troubleEveryMs = 5_000

export function observeWorker(log: WorkerLog): RunnerObserver {
  const toldAt = new Map<string, number>()
  return {
    settled: ({ delivery, settlement }) => {
      if (settlement.kind === 'retry') log.warn(describe(delivery, settlement.reason), 'An attempt failed')
      if (settlement.kind === 'bury') log.warn(describe(delivery, settlement.reason), 'A delivery was buried')
    },
    lost: (delivery, why) => log.warn(describe(delivery, why), 'A lease was lost'),
    trouble: (error, doing) => {
      const now = performance.now()
      if (now - (toldAt.get(doing) ?? Number.NEGATIVE_INFINITY) < troubleEveryMs) return
      toldAt.set(doing, now)
      log.error({ error }, `Background task failed: ${doing}`)
    },
  }
}

export function describe({ event, attempt }: LeasedDelivery, reason: string): object {
  return { eventId: event.id, type: event.type, attempt, reason: reason.split('\n', 1)[0] }
}
