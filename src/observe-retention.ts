import type { Logger } from './observe/log.ts'
import type { Metrics } from './observe/metrics.ts'
import type { RetentionObserver } from './retention/retention.ts'

/** What could not be removed is kept, and told. */
export function observeRetention(metrics: Metrics, log: Logger): RetentionObserver {
  return {
    pruned: (table, rows) => metrics.pruned.inc({ table }, rows),
    failed: (error, doing) => {
      metrics.pruneFailures.inc()
      log.error({ err: error, doing }, 'Trouble while pruning')
    },
  }
}
