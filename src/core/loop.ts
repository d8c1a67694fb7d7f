import { setTimeout as delay } from 'node:timers/promises'
import { untilBeat } from './beat.ts'

export interface LoopOptions {
  readonly name: string
  readonly everyMs: number
  /** One bounded step. True: there was more than fits one step, so the next one follows at once. */
  readonly step: () => Promise<boolean>
  /** The share of the time that consecutive steps may take, from 0 to 1; the loop rests between them. Default 1. */
  readonly share?: number
  readonly trouble: (error: unknown, doing: string) => void
}

/** A small named loop of upkeep. Start and stop may be called twice; stop waits for the step under way. */
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
    const { name, everyMs, step, trouble, share = 1 } = this.#options
    while (!signal.aborted) {
      let more = false
      const beganAt = performance.now()
      try {
        more = await step()
      } catch (error) {
        trouble(error, name)
      }
      const restMs = more ? (performance.now() - beganAt) * (1 / share - 1) : untilBeat(everyMs)
      if (restMs > 0) await delay(restMs, undefined, { signal }).catch(() => undefined)
    }
  }
}
