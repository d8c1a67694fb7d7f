/** As much of an AbortSignal as a request needs, at a fraction of its cost: most attempts are never stopped. */
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
