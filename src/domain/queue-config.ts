import { badOption } from './bad-value.ts'
import type { NamesOf } from './known-names.ts'

/** How deep a queue may be and how it is worked off, by the names of seed 002. Null: no limit, or the usual. */
export interface QueueConfig {
  readonly maxQueueDepth: number | null
  /** From this depth on publishers are told. */
  readonly highWatermark: number | null
  /** When it is full: publishers are turned away, or what they publish is stored all the same. */
  readonly onFull: OnFull | null
  /** What a process takes at once, at most. */
  readonly batchSize: number | null
  /** How long it waits until it takes more, in ms. */
  readonly processingInterval: number | null
  /** Memory queues: how many may be in memory only. It has no effect on a queue in the database, where every event is stored. */
  readonly persistenceThreshold: number | null
}

export type OnFull = 'refuse' | 'hold'
/** Where what waits is kept: in the database, or in the memory of the one process that handles it. */
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

export const queueOptions: NamesOf<QueueOptions> = {
  maxQueueDepth: true,
  highWatermark: true,
  onFull: true,
  batchSize: true,
  processingInterval: true,
  persistenceThreshold: true,
}

export const queueOptionNames = Object.keys(queueOptions) as (keyof QueueConfig)[]

/** What is left out is null: as it was, or the usual. */
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

/** Publishers are to be told before they are turned away. */
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
