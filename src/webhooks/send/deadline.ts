import { SendError } from './send-failure.ts'

/** An AbortSignal, or something that costs less. */
export type Cancellation = Pick<AbortSignal, 'aborted'> & {
  addEventListener(type: 'abort', act: () => void): void
  removeEventListener(type: 'abort', act: () => void): void
}

/**
 * Ends a request when its time is over, when the caller gives up, or when the sender is closed. It is not an AbortSignal, which
 * costs as much as signing a request.
 */
export class Deadline {
  readonly #timer: NodeJS.Timeout
  readonly #outer: Cancellation | undefined
  readonly #onOuter = () => this.cancel('The caller gave up')
  #failure: SendError | null = null
  #act: ((failure: SendError) => void) | null = null

  constructor(timeoutMs: number, outer: Cancellation | undefined) {
    this.#timer = setTimeout(() => this.#end('timeout', `No answer within ${timeoutMs} ms`), timeoutMs)
    this.#outer = outer
    outer?.addEventListener('abort', this.#onOuter)
    if (outer?.aborted) this.#onOuter()
  }

  /** Why the request must end; null: it need not. */
  get failure(): SendError | null {
    return this.#failure
  }

  /** Sets what is called when the request must end: only the step that is under way listens. Null: nothing is. */
  watch(act: ((failure: SendError) => void) | null): void {
    this.#act = act
  }

  cancel(why: string): void {
    this.#end('ours', why)
  }

  clear(): void {
    clearTimeout(this.#timer)
    this.#outer?.removeEventListener('abort', this.#onOuter)
  }

  #end(errorClass: 'timeout' | 'ours', why: string): void {
    if (this.#failure !== null) return
    this.#failure = new SendError(errorClass, why)
    this.#act?.(this.#failure)
  }
}
