import { countThatFit, type PortionLimits } from './portions.ts'

/** How a batcher handles its batches. */
export interface BatcherOptions<Item, Answer> extends PortionLimits<Item> {
  /** Handles one batch. Answers in the order of the items, some perhaps later; a throw fails them all. */
  readonly flush: (items: Item[]) => Promise<readonly (Answer | Promise<Answer>)[]>
  /** How many batches may be under way at once. */
  readonly flushesMax: number
}

interface Entry<Item, Answer> {
  readonly item: Item
  resolve(answer: Answer | Promise<Answer>): void
  reject(error: unknown): void
}

/**
 * Groups calls that arrive together into one statement. Nobody waits for a timer: the first call of an idle
 * batcher is handled at the end of this turn of the event loop. Calls that arrive while batches are under way
 * are handled together when one of those is done. So batches grow with the load, and only with it.
 */
export class Batcher<Item, Answer> {
  readonly #options: BatcherOptions<Item, Answer>
  #waiting: Entry<Item, Answer>[] = []
  #underWay = 0
  #scheduled = false
  #idle: (() => void)[] = []

  constructor(options: BatcherOptions<Item, Answer>) {
    this.#options = options
  }

  add(item: Item): Promise<Answer> {
    return new Promise<Answer>((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject })
      this.#schedule()
    })
  }

  /** Resolves when everything added so far has been answered. */
  async settled(): Promise<void> {
    if (this.#waiting.length === 0 && this.#underWay === 0) return
    await new Promise<void>((resolve) => this.#idle.push(resolve))
  }

  #schedule(): void {
    if (this.#scheduled || this.#underWay >= this.#options.flushesMax) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      void this.#flush()
    })
  }

  async #flush(): Promise<void> {
    if (this.#waiting.length === 0) return
    const { sizeOf = () => 0 } = this.#options
    const limits = { ...this.#options, sizeOf: ({ item }: Entry<Item, Answer>) => sizeOf(item) }
    const entries = this.#waiting.splice(0, countThatFit(this.#waiting, limits))
    this.#underWay++
    try {
      const answers = await this.#options.flush(entries.map((entry) => entry.item))
      for (const [position, entry] of entries.entries()) {
        entry.resolve(answers[position] as Answer | Promise<Answer>)
      }
    } catch (error) {
      for (const entry of entries) entry.reject(error)
    } finally {
      this.#underWay--
      if (this.#waiting.length > 0) this.#schedule()
      else if (this.#underWay === 0) for (const resolve of this.#idle.splice(0)) resolve()
    }
  }
}
