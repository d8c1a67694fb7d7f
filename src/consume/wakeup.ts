export interface WakeupOptions {
  /** How soon to look again while there was work lately. */
  readonly pollMs: number
  /** The longest wait: polling is the truth, and notifications only make it fast. */
  readonly idlePollMs: number
}

/**
 * When to look for work: at once when somebody says so, else by polling, every `pollMs` while busy and ever
 * more rarely when idle.
 */
export class Wakeup {
  readonly #options: WakeupOptions
  #pollMs: number
  #woken = false
  #freed = false
  #resume: ((why: 'woken' | 'timer') => void) | undefined

  constructor(options: WakeupOptions) {
    this.#options = options
    this.#pollMs = options.pollMs
  }

  /** Something may have been published. */
  wake(): void {
    this.#woken = true
    this.#resume?.('woken')
  }

  /** There is room for more, or a lane may go on. Remembered: the look under way may have come too early for it. */
  slotFree(): void {
    this.#freed = true
    this.#resume?.('woken')
  }

  /** What was said before this look is answered by it. */
  looking(): void {
    this.#woken = false
    this.#freed = false
  }

  busy(): void {
    this.#pollMs = this.#options.pollMs
  }

  /** Waits until it is worth looking. When only the timer says so, `peek` has the last word. */
  async wait(peek: () => Promise<boolean>): Promise<void> {
    if (this.#woken || this.#freed) {
      // Heard once: whoever does not look now, for want of room, looks when there is some.
      this.#woken = false
      this.#freed = false
      return
    }
    if ((await this.#sleep(jittered(this.#pollMs))) === 'woken') return
    this.#pollMs = Math.min(this.#pollMs * 2, this.#options.idlePollMs)
    if (await peek()) this.#woken = true
  }

  /** Waits for the time given, or less if woken: after trouble, and when somebody else is at it. */
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
