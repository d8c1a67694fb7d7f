import { setTimeout as delay } from 'node:timers/promises'

interface WatchOptions {
  /** Asks the server for any answer, on a new connection. Never rejects. */
  readonly probe: () => Promise<void>
  /** Cuts all connections: the server is gone. */
  readonly cut: () => void
  /** The server answers again. */
  readonly back: () => void
}

const tickMs = 200
const probeTicks = 2
const goneTicks = 6
const looksMax = 2
const lookMs = 100

/**
 * Tells a server that is gone from one that is slow. While a caller waits and the server answers nobody, the watch asks on
 * a new connection. If the server does not answer that either, it counts as gone for all callers, until it answers again.
 * Callers learn of it within two seconds, and a slow statement may still take its time.
 *
 * Silence is counted in ticks, not by the clock: a process that was itself held up has missed ticks, and does not blame
 * the server.
 */
export class Watch {
  readonly #options: WatchOptions
  readonly #refusals = new Set<(gone: Error) => void>()
  #waiting = 0
  #silentTicks = 0
  #timer: NodeJS.Timeout | undefined
  #probing: Promise<void> | undefined
  #stopped = false

  constructor(options: WatchOptions) {
    this.#options = options
  }

  /** The server has answered something. */
  heard(): void {
    const wasGone = this.#isGone
    this.#silentTicks = 0
    if (wasGone) this.#options.back()
  }

  /** A caller waits for an answer until `end` is called. */
  begin(): void {
    this.#waiting++
    if (!this.#stopped) this.#timer ??= setInterval(() => this.#tick(), tickMs).unref()
  }

  end(): void {
    this.#waiting--
  }

  /** The result of `ask`, or an error if the server is gone. A result that comes after that error goes to `tooLate`. */
  async unlessGone<T>(ask: () => Promise<T>, tooLate: (given: T) => void): Promise<T> {
    await this.#look()
    const given = ask()
    let refuse: (gone: Error) => void = () => undefined
    const gone = new Promise<never>((_, reject) => {
      refuse = reject
    })
    this.#refusals.add(refuse)
    this.begin()
    try {
      return await Promise.race([given, gone])
    } catch (error) {
      void given.then(tooLate, () => undefined)
      throw error
    } finally {
      this.end()
      this.#refusals.delete(refuse)
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true
    clearInterval(this.#timer)
    await this.#probing
  }

  get #isGone(): boolean {
    return this.#silentTicks >= goneTicks
  }

  /** While the server is gone, each new caller tries it once more, but not for long. */
  async #look(): Promise<void> {
    for (let looks = 0; this.#isGone; looks++) {
      if (looks === looksMax) throw goneError()
      await Promise.race([this.#probe(), delay(lookMs)])
    }
  }

  #tick(): void {
    if (this.#waiting === 0 && !this.#isGone) {
      clearInterval(this.#timer)
      this.#timer = undefined
      this.#silentTicks = 0
      return
    }
    this.#silentTicks++
    if (this.#silentTicks >= probeTicks) void this.#probe()
    if (this.#silentTicks === goneTicks) this.#giveUp()
  }

  #probe(): Promise<void> {
    this.#probing ??= this.#options.probe().finally(() => {
      this.#probing = undefined
    })
    return this.#probing
  }

  #giveUp(): void {
    for (const refuse of this.#refusals) refuse(goneError())
    this.#options.cut()
  }
}

function goneError(): Error {
  return new Error('it does not answer, not even on a new connection')
}
