import { setTimeout as delay } from 'node:timers/promises'
import type { RunningAttempt } from './attempt.ts'
import type { RunnerParts } from './runner-parts.ts'
import type { SettleAnswer, SettleDelivery } from './source.ts'

/** An attempt that has ended, and the settlement of its delivery. */
export interface EndedAttempt extends SettleDelivery {
  readonly attempt: RunningAttempt
}

export interface SettlerOptions {
  readonly parts: RunnerParts
  readonly settled: (ended: EndedAttempt, answer: SettleAnswer) => void
  /** Called when a statement has ended: there is room for more, and lanes may go on. */
  readonly done: () => void
  readonly trouble: (error: unknown) => void
  /** From this many on, settles before the turn of the event loop ends: sensible where settling is cheap. */
  readonly atOnceFrom?: number
  /** Nobody else's settlement waits for this one. */
  readonly isAlone?: (ended: EndedAttempt) => boolean
}

const settlementsMax = 5_000
/** A second statement starts beside the first only with at least this many: small ones cost more per settlement. */
const settlementsBesideMin = 200
/** The longest pause between tries. A lane stands until its settlement is stored, so a database that is back must be noticed soon. */
const failureDelayMsMax = 500

/** Settles ended attempts, many in one statement. Attempts that end meanwhile go with the next, so batches grow with the load. */
export class Settler {
  readonly #options: SettlerOptions
  readonly #ended: EndedAttempt[] = []
  /** Statements under way. */
  #settling = 0

  constructor(options: SettlerOptions) {
    this.#options = options
  }

  add(attempt: RunningAttempt, settlement: SettleDelivery['settlement']): void {
    const { startedAfterMs, executionMs } = attempt.timing(performance.now())
    const { delivery, exchange } = attempt
    this.#ended.push({ attempt, delivery, settlement, startedAfterMs, executionMs, exchange })
    const { atOnceFrom = Number.POSITIVE_INFINITY } = this.#options
    if (this.#ended.length >= atOnceFrom) {
      this.#settling++
      void this.#settleAll()
      return
    }
    if (this.#settling >= (this.#ended.length < settlementsBesideMin ? 1 : 2)) return
    this.#settling++
    // At the end of this turn, so that attempts that end together are settled together.
    setImmediate(() => void this.#settleAll())
  }

  async #settleAll(): Promise<void> {
    while (this.#ended.length > 0) {
      const batch: EndedAttempt[] = []
      for (const ended of this.#ended.splice(0, settlementsMax)) {
        // The handler's transaction may hold the run locked, and no other settlement should wait for it.
        if (ended.attempt.completesIn || this.#options.isAlone?.(ended)) void this.#settleUntilDone([ended])
        else batch.push(ended)
      }
      if (batch.length > 0) await this.#settleUntilDone(batch)
    }
    this.#settling--
  }

  async #settleUntilDone(batch: readonly EndedAttempt[]): Promise<void> {
    const { parts, settled, done, trouble } = this.#options
    for (let failures = 0; !isStopped(parts); failures++) {
      try {
        const answers = await parts.source.settle(batch)
        for (let at = 0; at < batch.length; at++) {
          settled(batch[at] as EndedAttempt, answers[at] as SettleAnswer)
        }
        done()
        return
      } catch (error) {
        // The runner has stopped. It has logged what was left, and the connection was closed after that.
        if (isStopped(parts)) return
        trouble(error)
        await delay(Math.min(100 * 2 ** failures, failureDelayMsMax))
      }
    }
  }
}

/** Few enough that they are garbage while still young: the collector copies whatever survives. */
const settleInMemoryFrom = 128

/** One settler for deliveries settled by statements, and one for runs in memory, which need no statement. */
export class Settlers {
  readonly #stored: Settler
  readonly #inMemory: Settler

  constructor(options: SettlerOptions) {
    this.#stored = new Settler(options)
    this.#inMemory = new Settler({
      ...options,
      atOnceFrom: settleInMemoryFrom,
      isAlone: ({ settlement, delivery }) => settlement.kind === 'bury' || delivery.settlesAlone === true,
    })
  }

  add(attempt: RunningAttempt, settlement: SettleDelivery['settlement']): void {
    const settler = attempt.held.run.memory?.settlesInMemory ? this.#inMemory : this.#stored
    settler.add(attempt, settlement)
  }
}

function isStopped({ state }: RunnerParts): boolean {
  return state === 'idle'
}
