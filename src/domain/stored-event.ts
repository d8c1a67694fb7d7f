import type { EventAttributes, EventSource } from './event.ts'

/** Fields that every event has. */
export interface CoreFields {
  readonly id: number
  readonly type: string | null
  readonly payloadText: string
  readonly orderingKey: string | null
  readonly createdAtMs: number
}

/** Fields that few events have. */
export interface RareFields {
  readonly title: string | null
  readonly description: string | null
  readonly tags: readonly string[] | null
  readonly concurrencyKey: string | null
  readonly version: string | null
  readonly source: EventSource | null
  readonly timestamp: Date | null
  readonly correlationId: string | null
  readonly causationId: string | null
  readonly traceparent: string | null
  readonly runAt: Date | null
  readonly expiresAt: Date | null
  readonly maxRetries: number | null
  readonly attributes: EventAttributes | null
}

/** All fields of an event but its parsed payload. */
export interface StoredEventFields extends Omit<CoreFields, 'createdAtMs'>, RareFields {
  readonly createdAt: Date
}

/** An event as handlers see it. */
export interface StoredEvent<Type extends string | null = string | null, Payload = unknown>
  extends StoredEventFields {
  readonly type: Type
  /** Parsed when it is first read, so that a handler that does not read it pays nothing. */
  readonly payload: Payload
}

export function storedEvent(core: CoreFields, rare: RareFields = noRareFields): StoredEvent {
  return new LazyEvent(core, rare) as LazyEvent & RareFields
}

/**
 * A copy of an event, with its payload not parsed. A payload that is parsed into an old object survives longer in the garbage
 * collector, which copies it twice; a payload that lives for one attempt should belong to a young event.
 */
export function youngCopy(event: StoredEvent): StoredEvent {
  return event instanceof LazyEvent ? event.copy() : event
}

const noRareFields: RareFields = Object.freeze({
  title: null,
  description: null,
  tags: null,
  concurrencyKey: null,
  version: null,
  source: null,
  timestamp: null,
  correlationId: null,
  causationId: null,
  traceparent: null,
  runAt: null,
  expiresAt: null,
  maxRetries: null,
  attributes: null,
})

/**
 * A runner holds thousands of events, and the garbage collector copies them. So an event has only six fields, and all events
 * without rare fields share one set of nulls.
 */
class LazyEvent {
  readonly id: number
  readonly type: string | null
  readonly payloadText: string
  readonly orderingKey: string | null
  readonly #createdAtMs: number
  readonly #rare: RareFields
  #payload: unknown // undefined = not parsed yet; JSON has no undefined

  constructor(core: CoreFields, rare: RareFields) {
    this.id = core.id
    this.type = core.type
    this.payloadText = core.payloadText
    this.orderingKey = core.orderingKey
    this.#createdAtMs = core.createdAtMs
    this.#rare = rare
  }

  get payload(): unknown {
    if (this.#payload === undefined) this.#payload = JSON.parse(this.payloadText)
    return this.#payload
  }

  get createdAt(): Date {
    return new Date(this.#createdAtMs)
  }

  copy(): StoredEvent {
    const { id, type, payloadText, orderingKey } = this
    return storedEvent({ id, type, payloadText, orderingKey, createdAtMs: this.#createdAtMs }, this.#rare)
  }

  /** The rare fields can be read from the event too, through the set that it has. */
  static {
    for (const name of Object.keys(noRareFields) as (keyof RareFields)[]) {
      Object.defineProperty(LazyEvent.prototype, name, {
        configurable: true,
        get(this: LazyEvent) {
          return this.#rare[name]
        },
      })
    }
  }

  /** For logs: all fields, the payload parsed. */
  toJSON(): object {
    const { id, type, orderingKey, payload, createdAt } = this
    return { id, type, orderingKey, ...this.#rare, payload, createdAt }
  }
}
