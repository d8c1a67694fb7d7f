import { setTimeout as delay } from 'node:timers/promises'
import { untilBeat } from './beat.ts'

export interface LoopOptions {
  readonly name: string
  readonly everyMs: number
  /** One bounded step. True: there was more than fits one step, so the next one follows at once. */
  readonly step: () => Promise<boolean>
  readonly trouble: (error: unknown, doing: string) => void
}

/** A small named loop of upkeep. Starting and stopping twice is safe; stopping waits for the step under way. */
export class Loop {
  readonly #options: LoopOptions
  #stopping: AbortController | undefined
  #done: Promise<void> | undefined

  constructor(options: LoopOptions) {
    this.#options = options
  }

  start(): void {
    if (this.#stopping !== undefined) return
    this.#stopping = new AbortController()
    this.#done = this.#run(this.#stopping.signal)
  }

  async stop(): Promise<void> {
    this.#stopping?.abort()
    await this.#done
    this.#stopping = undefined
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { name, everyMs, step, trouble } = this.#options
    while (!signal.aborted) {
      let more = false
      try {
        more = await step()
      } catch (error) {
        trouble(error, name)
      }
      if (!more) await delay(untilBeat(everyMs), undefined, { signal }).catch(() => undefined)
    }
  }
}
