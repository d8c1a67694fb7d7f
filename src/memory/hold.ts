import { memoryHeldMs } from './claim-memory.ts'

/** Whether a queue is this process's, as far as it knows. */
export class Hold {
  #state: 'open' | 'closing' | 'lost' = 'open'
  /** Monotonic: when the last statement that claimed or renewed the queue was sent, if it succeeded. */
  #keptAt: number

  constructor(claimedAt: number) {
    this.#keptAt = claimedAt
  }

  /** Another process has the queue: nothing more is given out or written. */
  get isLost(): boolean {
    return this.#state === 'lost'
  }

  /**
   * Whether the queue is surely this process's at this moment of the monotonic clock, and open: nobody else can have
   * claimed it yet. Asked as each attempt begins, since a process can be stopped at any moment for longer than its claim
   * lasts. The monotonic clock goes on while the process is stopped, but not while the whole machine is suspended: a virtual
   * machine that wakes up on another's claim may begin attempts until the next renewal tells it.
   */
  isOurs(now: number): boolean {
    return this.#state === 'open' && now - this.#keptAt < memoryHeldMs
  }

  /** The database has renewed the claim, by a statement that was sent at this moment of the monotonic clock. */
  kept(sentAt: number): void {
    this.#keptAt = Math.max(this.#keptAt, sentAt)
  }

  /** Nothing more comes in or is given out: the queue is about to be given up. */
  close(): void {
    if (!this.isLost) this.#state = 'closing'
  }

  lose(): void {
    this.#state = 'lost'
  }
}
