import { setTimeout as delay } from 'node:timers/promises'
import { Batcher } from '../core/batcher.ts'
import type { PortionLimits } from '../core/portions.ts'
import type { Connection, Database } from '../db/database.ts'
import { isLocked, isOverload } from '../db/failure.ts'
import type { NewEvent } from '../domain/event.ts'
import { PosthornError } from '../errors.ts'
import type { Published } from './publish.ts'

/** The size of one statement: a larger one is no faster per event, and payloads may have a megabyte each. */
export const statementLimits = (itemsMax: number): PortionLimits<NewEvent> => ({
  itemsMax,
  sizeMax: 16 * 2 ** 20,
  sizeOf: (event) => event.payloadText.length,
})

const batchEventsMax = 1_000
const troublesMax = 2
/** How long a statement waits for an idempotency key that an open transaction holds, and how long the key's publisher does. */
const lockTimeoutMs = 50
const keyHeldMs = 5_000

/** A promise: the answer is not known yet, and other events of the batch do not wait for it. */
type Answer = Published | Error | Promise<Published>

/** Events that arrive together share one statement and one commit. None of them makes the others fail or wait. */
export class GroupCommit {
  /** Stores events in one statement, which gives up soon if an open transaction holds an idempotency key. */
  readonly #store: (events: readonly NewEvent[]) => Promise<readonly Published[]>
  readonly #batcher: Batcher<NewEvent, Published | Error>
  /** Events with idempotency keys: a key that an open transaction holds makes its whole statement wait. */
  readonly #keyedBatcher: Batcher<NewEvent, Published | Error>
  /** Events whose key is held by an open transaction. */
  readonly #heldBatcher: Batcher<NewEvent, Published | 'held'>
  readonly #waiting = new Set<Promise<Published>>()

  constructor(store: (events: readonly NewEvent[]) => Promise<readonly Published[]>) {
    this.#store = store
    const newBatcher = () =>
      new Batcher<NewEvent, Published | Error>({
        flush: (events) => this.#flush(events),
        ...statementLimits(batchEventsMax),
        flushesMax: 2,
      })
    this.#batcher = newBatcher()
    this.#keyedBatcher = newBatcher()
    const flush = (events: NewEvent[]) => this.#flushHeld(events)
    this.#heldBatcher = new Batcher({ flush, itemsMax: 1, flushesMax: 2 })
  }

  async add(event: NewEvent): Promise<Published> {
    const batcher = event.idempotencyKey === null ? this.#batcher : this.#keyedBatcher
    const answer = await batcher.add(event)
    if (answer instanceof Error) throw answer
    return answer
  }

  /** Resolves when everything added so far is answered. */
  async settled(): Promise<void> {
    await Promise.all([this.#batcher.settled(), this.#keyedBatcher.settled()])
    await Promise.allSettled(this.#waiting)
  }

  async #flush(events: readonly NewEvent[]): Promise<readonly Answer[]> {
    try {
      return await this.#store(events)
    } catch (error) {
      const held = isKeyed(events) && isLocked(error)
      const [event, ...others] = events as readonly [NewEvent, ...NewEvent[]]
      if (others.length === 0 && held) return [this.#later(this.#whenFree(event))]
      if (others.length === 0 || error instanceof PosthornError || (isOverload(error) && !held)) throw error
      return this.#flushAlone(events)
    }
  }

  /**
   * One event that the database refuses, or whose key is held, must not fail the others, so each is stored alone. After two
   * refusals or overload errors the rest fails with the second error: a thousand more statements would only add to the overload.
   */
  async #flushAlone(events: readonly NewEvent[]): Promise<readonly Answer[]> {
    const answers: Answer[] = []
    const troubles: Error[] = []
    const places = events.keys()
    const walk = async () => {
      for (const place of places) {
        const event = events[place] as NewEvent
        const [enough] = troubles.slice(troublesMax - 1)
        const [answer] = enough ? [enough] : await this.#flush([event]).catch((reason: Error) => [reason])
        answers[place] = answer as Answer
        if (answer instanceof PosthornError || (answer instanceof Error && isOverload(answer)))
          troubles.push(answer)
      }
    }
    await Promise.all([walk(), walk()])
    return answers
  }

  #later(answer: Promise<Published>): Promise<Published> {
    this.#waiting.add(answer)
    // The caller also receives a rejection; this handler keeps Node from reporting it as unhandled until then.
    void answer.catch(() => undefined).finally(() => this.#waiting.delete(answer))
    return answer
  }

  /** Tries again until the transaction that holds the key has committed (then the event is a repeat) or rolled back. */
  async #whenFree(event: NewEvent): Promise<Published> {
    const deadline = performance.now() + keyHeldMs
    while (performance.now() < deadline) {
      await delay(lockTimeoutMs)
      const answer = await this.#heldBatcher.add(event)
      if (answer !== 'held') return answer
    }
    throw new PosthornError('KEY_HELD', { key: event.idempotencyKey })
  }

  async #flushHeld(events: NewEvent[]): Promise<readonly (Published | 'held')[]> {
    try {
      return await this.#store(events)
    } catch (error) {
      if (isLocked(error)) return ['held']
      throw error
    }
  }
}

export function isKeyed(events: readonly NewEvent[]): boolean {
  return events.some((event) => event.idempotencyKey !== null)
}

/** A connection whose statements give up soon on locked rows. */
export function impatient(db: Database): Connection & { readonly schema: string } {
  return {
    schema: db.schema,
    query: db.query.bind(db),
    run: (statement, values) => db.once(statement, values, { lockTimeoutMs }),
  }
}
