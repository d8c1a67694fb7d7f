/** Rows of right-aligned columns; the first column is text and aligned left. */
export function formatRow(cells, widths) {
  return cells.map((cell, at) => (at === 0 ? cell.padEnd(widths[at]) : cell.padStart(widths[at]))).join('  ')
}

export function formatNumber(value) {
  if (value === undefined || Number.isNaN(value)) return '–'
  const digits = Math.abs(value) >= 100 ? 0 : 2
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}

export function median(values) {
  return quantile(values, 0.5)
}

/** The smallest value that at least `share` of all values do not exceed; the mean of the middle two for an even median. */
export function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b)
  if (share === 0.5 && sorted.length % 2 === 0)
    return (sorted[sorted.length / 2 - 1] + sorted[sorted.length / 2]) / 2
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)]
}
