/** Whatever has the lowest rank is on top. */
export class Heap<Item> {
  readonly #rankOf: (item: Item) => number
  readonly #items: { readonly rank: number; readonly item: Item }[] = []

  constructor(rankOf: (item: Item) => number) {
    this.#rankOf = rankOf
  }

  get size(): number {
    return this.#items.length
  }

  peek(): Item | undefined {
    return this.#items[0]?.item
  }

  get rank(): number {
    return this.#items[0]?.rank ?? Number.POSITIVE_INFINITY
  }

  push(item: Item): void {
    const entry = { rank: this.#rankOf(item), item }
    const items = this.#items
    let at = items.length
    items.push(entry)
    while (at > 0) {
      const above = (at - 1) >> 1
      if ((items[above] as typeof entry).rank <= entry.rank) break
      items[at] = items[above] as typeof entry
      at = above
    }
    items[at] = entry
  }

  pop(): Item | undefined {
    const items = this.#items
    const top = items[0]
    const last = items.pop()
    if (top === undefined || last === undefined) return undefined
    if (items.length > 0) this.#sink(last)
    return top.item
  }

  #sink(entry: { readonly rank: number; readonly item: Item }): void {
    const items = this.#items
    let at = 0
    for (;;) {
      let below = 2 * at + 1
      const [left, right] = [items[below], items[below + 1]]
      if (left === undefined) break
      if (right !== undefined && right.rank < left.rank) below++
      const smaller = items[below] as typeof entry
      if (smaller.rank >= entry.rank) break
      items[at] = smaller
      at = below
    }
    items[at] = entry
  }
}
