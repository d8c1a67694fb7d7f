/** How much goes into one portion; a single item always does. */
export interface PortionLimits<Item> {
  readonly itemsMax: number
  /** Default: whatever their sizes. */
  readonly sizeMax?: number
  readonly sizeOf?: (item: Item) => number
}

/** How many from `from` on make the next portion. */
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
