/** The part of AbortSignal that a request needs. It costs a fraction of a real one, and most attempts are never aborted. */
export class LightAbortSignal {
  aborted = false
  #act: (() => void) | undefined

  addEventListener(_: 'abort', act: () => void): void {
    this.#act = act
  }

  removeEventListener(_: 'abort', act: () => void): void {
    if (this.#act === act) this.#act = undefined
  }

  abort(): void {
    if (this.aborted) return
    this.aborted = true
    this.#act?.()
  }
}
