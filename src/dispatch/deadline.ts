import { SendError } from './failure.ts'

/** Ends a request when its time is over, when the caller says so, or when the sender is closed. */
export class Deadline {
  readonly #controller = new AbortController()
  readonly #timer: NodeJS.Timeout
  readonly #outer: AbortSignal | undefined
  readonly #onOuter = () => this.cancel('The caller gave up')

  constructor(timeoutMs: number, outer: AbortSignal | undefined) {
    const tooLate = new SendError('timeout', `No answer within ${timeoutMs} ms`)
    this.#timer = setTimeout(() => this.#controller.abort(tooLate), timeoutMs)
    this.#outer = outer
    outer?.addEventListener('abort', this.#onOuter)
    if (outer?.aborted) this.#onOuter()
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  cancel(why: string): void {
    this.#controller.abort(new SendError('ours', why))
  }

  clear(): void {
    clearTimeout(this.#timer)
    this.#outer?.removeEventListener('abort', this.#onOuter)
  }
}
