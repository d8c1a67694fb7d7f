/** Prometheus text as a map of `name{labels}`, these in order, to its value. Throws on what is none. */
export function parseExposition(text: string): Map<string, number> {
  const figures = new Map<string, number>()
  for (const line of text.trimEnd().split('\n')) {
    if (line === '' || /^# (HELP|TYPE) [a-z_]+ \S/.test(line)) continue
    const match = /^([a-z_]+(?:\{(?:[a-z]+="[^"\\]*",?)+\})?) (\S+)$/.exec(line)
    if (match === null || Number.isNaN(Number(match[2]))) throw new Error(`Not Prometheus text: ${line}`)
    const [, told, value] = match as unknown as [string, string, string]
    const series = told.replace(/\{(.*)\}/, (_, labels: string) => `{${labels.split(',').sort().join(',')}}`)
    if (figures.has(series)) throw new Error(`Told twice: ${series}`)
    figures.set(series, Number(value))
  }
  return figures
}
