/** What a long poll waits for. */
export interface Waiting {
  readonly subscription: number
  /** Only deliveries with any of these tags; null: with any tags or none. */
  readonly tags: readonly string[] | null
  readonly workerId: string
  /** Whether deliveries whose last worker vanished count. */
  readonly suspects: boolean
  /** The subscription has a limit, so that a ready delivery may have to wait. */
  readonly limited: boolean
  readonly signal: AbortSignal
}

/** One long poll in the waiting room: it sleeps until there may be something for it. */
export class Guest {
  readonly waiting: Waiting
  #mustLook = false
  #resume: ((why: 'look' | 'over') => void) | undefined

  constructor(waiting: Waiting) {
    this.waiting = waiting
  }

  get isAsleep(): boolean {
    return this.#resume !== undefined
  }

  /** There may be deliveries that the guest has not looked for yet. */
  get mustLook(): boolean {
    return this.#mustLook
  }

  wants(subscription: number, tags: readonly string[] | null): boolean {
    const { waiting } = this
    if (waiting.subscription !== subscription) return false
    return waiting.tags === null || (tags?.some((tag) => waiting.tags?.includes(tag)) ?? false)
  }

  /** Called when the guest looks now. */
  look(): void {
    this.#mustLook = false
  }

  wake(why: 'look' | 'over'): void {
    this.#mustLook ||= why === 'look'
    this.#resume?.(why)
  }

  sleep(ms: number): Promise<'look' | 'over'> {
    const { signal } = this.waiting
    if (signal.aborted) return Promise.resolve('over')
    if (this.#mustLook) return Promise.resolve('look')
    return new Promise((resolve) => {
      const over = () => this.#resume?.('over')
      const timer = setTimeout(over, ms)
      signal.addEventListener('abort', over, { once: true })
      this.#resume = (why) => {
        this.#resume = undefined
        clearTimeout(timer)
        signal.removeEventListener('abort', over)
        resolve(why)
      }
    })
  }
}
