/** First in, first out, without moving what waits each time something leaves. */
export class Fifo<Item> {
  #items: (Item | undefined)[] = []
  #from = 0

  get size(): number {
    return this.#items.length - this.#from
  }

  peek(): Item | undefined {
    return this.#items[this.#from]
  }

  push(item: Item): void {
    this.#items.push(item)
  }

  shift(): Item | undefined {
    if (this.size === 0) return undefined
    const item = this.#items[this.#from]
    // What has left is let go at once: the garbage collector copies what is kept.
    this.#items[this.#from++] = undefined
    if (this.#from > 1_000 && this.#from * 2 > this.#items.length) this.#trim()
    return item
  }

  /** Puts back what was just taken. */
  unshift(items: readonly Item[]): void {
    this.#items = [...items, ...this.#items.slice(this.#from)]
    this.#from = 0
  }

  /** Keeps only those. */
  filter(isKept: (item: Item) => boolean): void {
    this.#items = [...this].filter(isKept)
    this.#from = 0
  }

  *[Symbol.iterator](): Iterator<Item> {
    for (let at = this.#from; at < this.#items.length; at++) yield this.#items[at] as Item
  }

  #trim(): void {
    this.#items = this.#items.slice(this.#from)
    this.#from = 0
  }
}
