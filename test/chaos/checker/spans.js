/** Spans of time, each `{ from, to }`. */

/** The same times as spans that do not overlap, in their order. */
export function union(spans) {
  const joined = []
  for (const { from, to } of spans.toSorted((a, b) => a.from - b.from)) {
    const last = joined.at(-1)
    if (last !== undefined && from <= last.to) last.to = Math.max(last.to, to)
    else joined.push({ from, to })
  }
  return joined
}

/** How much of a time the spans cover, which must not overlap. */
export const coveredUs = (spans, [from, to]) =>
  spans.reduce((sum, one) => sum + Math.max(0, Math.min(one.to, to) - Math.max(one.from, from)), 0)
