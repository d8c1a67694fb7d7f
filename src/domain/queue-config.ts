import { badOption } from './bad-value.ts'
import type { NamesOf } from './known-names.ts'

/** The limits of a queue. Null: no limit, or the default. */
export interface QueueConfig {
  readonly maxQueueDepth: number | null
  /** At this depth publishers are warned of backpressure. */
  readonly highWatermark: number | null
  /** When the queue is full: `refuse` refuses new events, `hold` stores them and raises an alert. */
  readonly onFull: OnFull | null
  /** The most deliveries that a process takes at once. */
  readonly batchSize: number | null
  /** How long a process waits before it takes more, in milliseconds. */
  readonly processingInterval: number | null
  /** For memory queues: how many deliveries may be in memory only. It has no effect on a queue in the database. */
  readonly persistenceThreshold: number | null
}

export type OnFull = 'refuse' | 'hold'
/** Where waiting deliveries are kept: in the database, or in the memory of the one process that handles them. */
export type QueueStorage = 'database' | 'memory'
export type QueueOptions = { readonly [Key in keyof QueueConfig]?: QueueConfig[Key] | undefined }

export const memoryQueueDefaults = {
  maxQueueDepth: 10_000,
  highWatermark: 8_000,
  persistenceThreshold: 500,
} as const

const ranges = {
  maxQueueDepth: [1, 1_000_000],
  highWatermark: [1, 1_000_000],
  batchSize: [1, 10_000],
  processingInterval: [0, 86_400_000],
  persistenceThreshold: [1, 1_000_000],
} as const

export const queueOptions: NamesOf<QueueOptions> = { ...ranges, onFull: true }

export const queueOptionNames = Object.keys(queueOptions) as (keyof QueueConfig)[]

/** An option that is left out becomes null: unchanged, or the default. */
export function defineQueue(options: QueueOptions): QueueConfig {
  const { onFull = null } = options
  if (onFull !== null && onFull !== 'refuse' && onFull !== 'hold') {
    throw badOption('onFull', '"refuse" or "hold"', onFull)
  }
  const config: QueueConfig = {
    maxQueueDepth: within('maxQueueDepth', options),
    highWatermark: within('highWatermark', options),
    batchSize: within('batchSize', options),
    processingInterval: within('processingInterval', options),
    persistenceThreshold: within('persistenceThreshold', options),
    onFull,
  }
  checkWatermark(config)
  return config
}

/** Publishers must be warned before they are refused. */
export function checkWatermark({ maxQueueDepth, highWatermark }: QueueConfig): void {
  if (maxQueueDepth === null || highWatermark === null || highWatermark <= maxQueueDepth) return
  throw badOption('highWatermark', `at most maxQueueDepth, which is ${maxQueueDepth}`, highWatermark)
}

function within(option: keyof typeof ranges, options: QueueOptions): number | null {
  const value: unknown = options[option] ?? null
  const [min, max] = ranges[option]
  if (value === null) return null
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value
  throw badOption(option, `an integer from ${min} to ${max}`, value)
}
