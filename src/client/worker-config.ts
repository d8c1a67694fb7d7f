import type { Handler } from '../consume/attempt.ts'
import type { WorkerLog } from './worker-log.ts'

/** What the options say, checked. */
export interface WorkerConfig {
  readonly workerId: string
  readonly tags: string | readonly string[] | undefined
  readonly subscription: string
  readonly concurrency: number
  readonly leaseSeconds: number
  readonly waitSeconds: number
  readonly timeoutMs: number | null
  readonly prefetch: boolean
  readonly log: WorkerLog
  readonly handler: Handler
}
