import { alertKinds } from '../../src/observe/alerts.ts'
import { metricTable } from '../../src/observe/metrics.ts'

/** What an expression reads: a series, with the labels that it is picked by, and the function around it. */
interface Reading {
  readonly metric: string
  readonly matchers: readonly { readonly label: string; readonly value: string }[]
  readonly within: string | undefined
}

interface Expression {
  readonly readings: readonly Reading[]
  /** Those it is grouped by. */
  readonly groups: readonly string[]
}

const functions = [
  ...['sum', 'max', 'min', 'avg', 'count', 'rate', 'increase', 'absent', 'histogram_quantile'],
  'label_values',
]
const grouping = ['by', 'without', 'on', 'ignoring', 'group_left', 'group_right']
const operators = ['and', 'or', 'unless', 'bool', 'offset']
/** Every series has these, from whoever scrapes. */
const scrapeLabels = ['job', 'instance']
const token = /"(?:[^"\\]|\\.)*"|\[[^\]]*\]|[A-Za-z_:][\w:]*|\d[\w.]*|=~|!~|!=|[^\s]/g

/** What is wrong with an expression, measured by the table of metrics. Nothing: an empty list. */
export function faultsOf(text: string): string[] {
  const { readings, groups } = readExpression(text)
  if (readings.length === 0) return [`${text}: reads no metric`]
  return readings.flatMap((reading) => {
    const metric = find(reading.metric)
    if (metric === undefined) return [`${reading.metric}: no such metric`]
    const isCounted = metric.kind !== 'gauge'
    const isRated = reading.within === 'rate' || reading.within === 'increase'
    const labels = [...metric.labels, ...scrapeLabels, ...(reading.metric.endsWith('_bucket') ? ['le'] : [])]
    const used = [...reading.matchers.map(({ label }) => label), ...groups]
    return [
      ...(isCounted === isRated
        ? []
        : [`${reading.metric}: rate and increase are for counters, and only for them`]),
      ...used
        .filter((label) => !labels.includes(label))
        .map((label) => `${reading.metric}: no label ${label}`),
      ...reading.matchers
        .filter(({ label, value }) => label === 'alert' && !alertKinds.some((kind) => kind === value))
        .map(({ value }) => `${reading.metric}: no alert ${value}`),
    ]
  })
}

/** The metric that a series belongs to: of a histogram there are three, and none by its bare name. */
function find(series: string) {
  return Object.values(metricTable).find(({ kind, name }) =>
    kind === 'histogram'
      ? [`${name}_bucket`, `${name}_sum`, `${name}_count`].includes(series)
      : name === series,
  )
}

/** As much of PromQL as rules and panels need; what it does not know is an error. */
function readExpression(text: string): Expression {
  const tokens: readonly string[] = text.match(token) ?? []
  const readings: Reading[] = []
  const groups: string[] = []
  const open: (string | undefined)[] = []
  for (let i = 0; i < tokens.length; i++) {
    const word = tokens[i] as string
    if (word === '(') open.push(functions.find((name) => name === tokens[i - 1]))
    else if (word === ')') open.pop()
    else if (!/^[A-Za-z_:]/.test(word) || operators.includes(word)) continue
    else if (grouping.includes(word)) {
      const end = tokens.indexOf(')', i)
      groups.push(...tokens.slice(i + 2, end).filter((name) => name !== ','))
      i = end
    } else if (tokens[i + 1] === '(' || grouping.includes(tokens[i + 1] ?? '')) {
      if (!functions.includes(word)) throw new Error(`Not a function that is known here: ${word}`)
    } else if (open.at(-1) === 'label_values' && tokens[i - 1] === ',') groups.push(word)
    else {
      const end = tokens[i + 1] === '{' ? tokens.indexOf('}', i) : i
      readings.push({ metric: word, matchers: readMatchers(tokens.slice(i + 2, end)), within: open.at(-1) })
      i = end
    }
  }
  return { readings, groups }
}

function readMatchers(tokens: readonly string[]): Reading['matchers'] {
  return tokens.flatMap((word, i) =>
    /^(=|!=|=~|!~)$/.test(word)
      ? [{ label: tokens[i - 1] as string, value: (tokens[i + 1] as string).slice(1, -1) }]
      : [],
  )
}
