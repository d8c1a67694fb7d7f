export interface WakeupOptions {
  /** How long to wait between looks while there is work. */
  readonly pollMs: number
  /** The longest wait. Notifications may be lost, so polling must find everything too. */
  readonly idlePollMs: number
  /** How long an idle loop waits until the next common beat, so that all loops of a process look together. */
  readonly untilBeat?: (everyMs: number) => number
}

/** How long a free lane waits for others, so that one look finds them together. */
const soonMs = 20

/**
 * When to look for work: at once when woken, else by polling, every `pollMs` while busy and ever more rarely when idle.
 */
export class Wakeup {
  readonly #options: WakeupOptions
  #pollMs: number
  #woken = false
  #freed = false
  #emptied = false
  #soon: NodeJS.Timeout | undefined
  #rested: NodeJS.Timeout | undefined
  #resume: ((why: 'woken' | 'timer') => void) | undefined

  constructor(options: WakeupOptions) {
    this.#options = options
    this.#pollMs = options.pollMs
  }

  /** Something may have been published. */
  wake(): void {
    this.#woken = true
    this.#emptied = false
    this.#resume?.('woken')
  }

  /**
   * There is room for more. This is remembered, since the look under way may have begun before. If the last look took
   * all there was, nothing waits for the room.
   */
  slotFree(): void {
    this.#freed = true
    if (!this.#emptied) this.#resume?.('woken')
  }

  /** A lane may go on, and others soon will: one look a moment later finds them together. */
  wakeSoon(): void {
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined
      this.wake()
    }, soonMs)
  }

  /** A share rests for this long: the next look comes no later than its end. */
  wakeAfter(ms: number): void {
    clearTimeout(this.#rested)
    this.#rested = setTimeout(() => this.wake(), ms)
  }

  /** Nothing was left at the last look, and no signal has come since. */
  get isIdle(): boolean {
    return this.#emptied && !this.#woken && this.#resume !== undefined
  }

  /** A look begins: signals from before it are answered by it. */
  looking(): void {
    this.#woken = false
    this.#freed = false
    clearTimeout(this.#soon)
    this.#soon = undefined
  }

  /** The look found something; `all` says that nothing was left. */
  found(all: boolean): void {
    this.#emptied = all
    this.#pollMs = this.#options.pollMs
  }

  foundNothing(): void {
    this.#emptied = true
  }

  /** Waits until it is worth looking. When only the timer has run out, `peek` decides. */
  async wait(peek: () => Promise<boolean>): Promise<void> {
    if (this.#woken || (this.#freed && !this.#emptied)) {
      // Consume the signal: a free slot wakes us again.
      this.#woken = false
      this.#freed = false
      return
    }
    do {
      if ((await this.#sleep(this.#pauseMs())) === 'woken') return
      this.#pollMs = Math.min(this.#pollMs * 2, this.#options.idlePollMs)
      if (await peek()) this.#woken = true
      // A signal may have come during the peek.
    } while (!this.#woken && !(this.#freed && !this.#emptied))
  }

  #pauseMs(): number {
    const { idlePollMs, untilBeat } = this.#options
    const isIdle = this.#pollMs >= idlePollMs
    return isIdle && untilBeat !== undefined ? untilBeat(idlePollMs) : jittered(this.#pollMs)
  }

  stop(): void {
    clearTimeout(this.#soon)
    clearTimeout(this.#rested)
  }

  /** Waits for this long, or less if woken: after a failure, or while another process admits. */
  async pause(ms: number): Promise<void> {
    await this.#sleep(jittered(ms))
  }

  #sleep(ms: number): Promise<'woken' | 'timer'> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.#resume?.('timer'), ms)
      this.#resume = (why) => {
        clearTimeout(timer)
        this.#resume = undefined
        resolve(why)
      }
    })
  }
}

function jittered(ms: number): number {
  return ms * (0.9 + Math.random() * 0.2)
}
