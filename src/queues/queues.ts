import type { Paging } from '../core/paging.ts'
import type { Database } from '../db/database.ts'
import { checkOptions } from '../domain/known-names.ts'
import { defineQueue, type QueueOptions, queueOptions } from '../domain/queue-config.ts'
import { PosthornError } from '../errors.ts'
import type { Memory } from '../memory/memory.ts'
import type { SubscriptionCache } from '../subscriptions/subscription-cache.ts'
import {
  type Checkpoint,
  type CheckpointFilter,
  type CheckpointPage,
  checkpoint,
  listCheckpoints,
} from './checkpoints.ts'
import { configureQueue, getQueue, listQueues, type Queue, type QueuePage } from './queue-document.ts'
import type { QueuedPaging } from './queue-events.ts'
import { listRecoveries, type RecoveryPage } from './recoveries.ts'

export type { Checkpoint, CheckpointFilter } from './checkpoints.ts'
export type { Queue } from './queue-document.ts'
export type { QueuedEvent } from './queue-events.ts'
export type { Recovery } from './recoveries.ts'

const eventsDefault = 100
const listedEventsDefault = 10

export interface QueuesParts {
  readonly db: Database
  readonly subscriptions: SubscriptionCache
  /** Memory queues of this process. */
  readonly memory: Pick<Memory, 'checkpoint'>
}

/** The queues of all subscriptions, by name: their state, and what an operator can do to them. */
export class Queues {
  readonly #parts: QueuesParts

  constructor(parts: QueuesParts) {
    this.#parts = parts
  }

  /** In the order in which their subscriptions were made, each with its first events. */
  async list(paging: Paging = {}, options: { readonly eventsMax?: number } = {}): Promise<QueuePage> {
    checkOptions(options, { eventsMax: true }, 'a list of queues')
    const { eventsMax = listedEventsDefault } = options
    return listQueues(this.#parts.db, paging, { eventsMax })
  }

  /** A queue with a page of its events. Throws NOT_FOUND. */
  async get(name: string, paging: Partial<QueuedPaging> = {}): Promise<Queue> {
    checkOptions(paging, { limit: true, cursor: true }, 'a queue')
    const { limit = eventsDefault, cursor } = paging
    const found = await getQueue(this.#parts.db, name, { limit, cursor })
    if (found === undefined) throw notFound(name)
    return found
  }

  /** Options that are left out stay as they are; null takes a limit away. */
  async configure(name: string, changes: QueueOptions): Promise<Queue> {
    checkOptions(changes, queueOptions, 'a queue')
    defineQueue(changes)
    if (!(await configureQueue(this.#parts.db, name, changes))) throw notFound(name)
    this.#parts.subscriptions.forget()
    return this.get(name)
  }

  /** No attempt begins any more, in any process; deliveries are held. */
  pause(name: string): Promise<Queue> {
    return this.#become(name, 'paused')
  }

  resume(name: string): Promise<Queue> {
    return this.#become(name, 'active')
  }

  /** Finishes what waits, and then sets `drainedAt`. Events published meanwhile are refused or held. */
  drain(name: string): Promise<Queue> {
    return this.#become(name, 'draining')
  }

  /** Records how far the queue has come. */
  async checkpoint(name: string): Promise<Checkpoint> {
    const { db, subscriptions, memory } = this.#parts
    const { no, storage } = await subscriptions.current(name)
    if (storage === 'memory') {
      // Only the process that has it knows its state.
      const made = await memory.checkpoint(name)
      if (made === undefined) throw new PosthornError('QUEUE_ELSEWHERE', { queue: name })
      return made
    }
    const { checkpoints } = await checkpoint(db, { queues: [no], reason: 'requested' })
    const [made] = checkpoints
    if (made === undefined) throw notFound(name)
    return made
  }

  async checkpoints(name: string, filter?: CheckpointFilter): Promise<CheckpointPage> {
    await this.#parts.subscriptions.current(name)
    return listCheckpoints(this.#parts.db, name, filter)
  }

  async recoveries(name: string, paging?: Paging): Promise<RecoveryPage> {
    await this.#parts.subscriptions.current(name)
    return listRecoveries(this.#parts.db, name, paging)
  }

  async #become(name: string, status: 'active' | 'paused' | 'draining'): Promise<Queue> {
    const { id } = await this.#parts.subscriptions.current(name)
    // A second drain would move the fence up to which the queue is drained.
    await this.#parts.subscriptions.change({ id, versions: null }, (before) =>
      status === 'draining' && before.status === 'draining' ? {} : { status },
    )
    return this.get(name)
  }
}

function notFound(name: string): PosthornError {
  return new PosthornError('NOT_FOUND', { what: 'queue', id: name })
}
