/** Somebody who waits for deliveries. */
export interface Waiting {
  readonly subscription: number
  /** Any of these; null: whatever their tags. */
  readonly tags: readonly string[] | null
  readonly workerId: string
  /** Whether a delivery will do whose last worker vanished. */
  readonly suspects: boolean
  /** The subscription has a limit, so that what waits there may not be for anybody now. */
  readonly limited: boolean
  readonly signal: AbortSignal
}

export class Guest {
  readonly waiting: Waiting
  #told = false
  #resume: ((why: 'look' | 'over') => void) | undefined

  constructor(waiting: Waiting) {
    this.waiting = waiting
  }

  get isAsleep(): boolean {
    return this.#resume !== undefined
  }

  /** There may be something that it has not looked for yet. */
  get isTold(): boolean {
    return this.#told
  }

  wants(subscription: number, tags: readonly string[] | null): boolean {
    const { waiting } = this
    if (waiting.subscription !== subscription) return false
    return waiting.tags === null || (tags?.some((tag) => waiting.tags?.includes(tag)) ?? false)
  }

  /** Looks now, and so for all that it was told of. */
  look(): void {
    this.#told = false
  }

  wake(why: 'look' | 'over'): void {
    this.#told ||= why === 'look'
    this.#resume?.(why)
  }

  sleep(ms: number): Promise<'look' | 'over'> {
    const { signal } = this.waiting
    if (signal.aborted) return Promise.resolve('over')
    if (this.#told) return Promise.resolve('look')
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
