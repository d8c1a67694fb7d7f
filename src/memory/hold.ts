import { memoryHeldMs } from '../operations/claim-memory.ts'

/** Whether a queue is this process's, as far as it knows. */
export class Hold {
  #state: 'open' | 'closing' | 'lost' = 'open'
  /** Monotonic. */
  #keptAt = performance.now()

  /** It takes events, and gives them out. */
  get isOpen(): boolean {
    return this.#state === 'open'
  }

  /** It is another's now: nothing more is given out or written. */
  get isLost(): boolean {
    return this.#state === 'lost'
  }

  /** Another may have it meanwhile. */
  get isDoubtful(): boolean {
    return performance.now() - this.#keptAt > memoryHeldMs
  }

  /** The database says that it is ours, as of a moment on this process's own watch. */
  kept(at: number): void {
    this.#keptAt = at
  }

  /** Nothing more comes in or is given out: it is about to be given up. */
  close(): void {
    if (!this.isLost) this.#state = 'closing'
  }

  lose(): void {
    this.#state = 'lost'
  }
}
