import type { Logger } from '../observe/log.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { RetentionObserver } from './retention.ts'

/** Counts and logs what pruning does. */
export function observeRetention(metrics: Metrics, log: Logger): RetentionObserver {
  return {
    pruned: (table, rows) => metrics.pruned.inc({ table }, rows),
    failed: (error, table) => {
      metrics.pruneFailures.inc()
      log.error({ err: error, table }, 'Pruning failed: old rows stay until the next step')
    },
  }
}
