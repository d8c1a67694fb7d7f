/** How large one portion may be. A portion has at least one item, however large. */
export interface PortionLimits<Item> {
  readonly itemsMax: number
  /** Default: sizes do not count. */
  readonly sizeMax?: number
  readonly sizeOf?: (item: Item) => number
}

/** How many items, from `from` on, the next portion has. */
export function countThatFit<Item>(items: readonly Item[], limits: PortionLimits<Item>, from = 0): number {
  const { itemsMax, sizeMax = Number.POSITIVE_INFINITY, sizeOf = () => 0 } = limits
  let size = 0
  let count = 0
  for (; count < itemsMax && from + count < items.length; count++) {
    size += sizeOf(items[from + count] as Item)
    if (count > 0 && size > sizeMax) break
  }
  return count
}

export function portionsOf<Item>(items: readonly Item[], limits: PortionLimits<Item>): Item[][] {
  const portions: Item[][] = []
  for (let from = 0; from < items.length; ) {
    const count = countThatFit(items, limits, from)
    portions.push(items.slice(from, from + count))
    from += count
  }
  return portions
}
