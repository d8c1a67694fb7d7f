import type { MemoryQueue } from './memory-queue.ts'
import type { Persister } from './persister.ts'

/** A queue in the memory of this process, and what writes it. */
export interface OpenQueue {
  readonly queue: MemoryQueue
  readonly persister: Persister
}

/** By the number of their subscription. */
export type OpenQueues = ReadonlyMap<number, OpenQueue>
