import { setTimeout as delay } from 'node:timers/promises'
import type { RunningAttempt } from './attempt.ts'
import type { RunnerParts } from './runner-parts.ts'
import type { SettleAnswer, SettleDelivery } from './source.ts'

/** An attempt that has ended, with what is to become of its delivery. */
export interface EndedAttempt extends SettleDelivery {
  readonly attempt: RunningAttempt
}

export interface SettlerOptions {
  readonly parts: RunnerParts
  readonly settled: (ended: EndedAttempt, answer: SettleAnswer) => void
  /** A statement is done: there is room again, and lanes may go on. */
  readonly done: () => void
  readonly trouble: (error: unknown) => void
  /** This many are settled before the turn ends: where settling costs little, what has ended is let go early. */
  readonly atOnceFrom?: number
  /** Nobody else's settlement waits for this one. */
  readonly isAlone?: (ended: EndedAttempt) => boolean
}

const settlementsMax = 5_000
/** A second statement settles beside the first only for as many: small ones cost more each. */
const settlementsBesideMin = 200
/** A lane stands until its settlement is stored, so a database that is back is found soon. */
const failureDelayMsMax = 500

/** Settles what has ended, many in one statement: what ends meanwhile goes with the next, so batches grow with the load. */
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
    // At the end of this turn, so that what ends together is settled together.
    setImmediate(() => void this.#settleAll())
  }

  async #settleAll(): Promise<void> {
    while (this.#ended.length > 0) {
      const batch: EndedAttempt[] = []
      for (const ended of this.#ended.splice(0, settlementsMax)) {
        // Its own transaction may hold its run locked: nobody else's settlement waits for that.
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
        // The runner has stopped: it has told what was left, and the connection was closed after that.
        if (isStopped(parts)) return
        trouble(error)
        await delay(Math.min(100 * 2 ** failures, failureDelayMsMax))
      }
    }
  }
}

/** Few enough to be young when they are forgotten: the garbage collector copies what is kept. */
const settleInMemoryFrom = 128

/** One settler for what is settled by statements, and one for runs in memory, which wait for none. */
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
