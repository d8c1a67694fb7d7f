/** Runs contenders alternately, prints each round, and judges the medians of the rounds' ratios. */
import { formatNumber, formatRow, median } from './table.js'

/**
 * @typedef {Record<string, number>} Figures by metric, for instance { 'events/s': 12000 }
 * @typedef {{ name: string, run: (round: number) => Promise<Figures> }} Contender
 * @typedef {{ metric: string, of: string, over: string, atLeast?: number, atMost?: number }} Goal
 *
 * @param {{ title: string, metrics: string[], contenders: Contender[], goals: Goal[], rounds?: number }} question
 */
export async function compare({ title, metrics, contenders, goals, rounds = roundCount() }) {
  console.log(`\n${title}`)
  const columns = contenders.flatMap(({ name }) => metrics.map((metric) => ({ name, metric })))
  const heads = ['round', ...columns.map(({ name, metric }) => `${name} ${metric}`)]
  const widths = heads.map((head) => Math.max(head.length, 10))
  console.log(formatRow(heads, widths))

  const results = []
  for (let round = 1; round <= rounds; round++) {
    const figures = await runRound(contenders, round)
    results.push(figures)
    const cells = columns.map(({ name, metric }) => formatNumber(figures[name][metric]))
    console.log(formatRow([String(round), ...cells], widths))
  }
  const medians = columns.map(({ name, metric }) => median(results.map((figures) => figures[name][metric])))
  console.log(formatRow(['median', ...medians.map(formatNumber)], widths))
  for (const goal of goals) judge(title, goal, results)
}

/** Prints and reports one verdict; `ratios` holds one ratio per round. */
export function verdict({ title, what, ratios, atLeast, atMost }) {
  const ratio = median(ratios)
  const goal = atLeast === undefined ? `≤ ${atMost} ×` : `≥ ${atLeast} ×`
  const met = atLeast === undefined ? ratio <= atMost : ratio >= atLeast
  const each = ratios.map((value) => value.toFixed(2)).join(' ')
  console.log(`  ${what}: ${each}, median ${ratio.toFixed(2)} ×, goal ${goal}: ${met ? 'met' : 'MISSED'}`)
  process.send?.({ title, what, ratio, goal, met })
}

/** `inAll` counts when every question is asked: the whole bench has to end in 15 minutes. */
export function roundCount({ usual = 5, inAll = usual } = {}) {
  const text = process.env.BENCH_ROUNDS
  if (text === undefined) return process.env.BENCH_ALL === undefined ? usual : inAll
  const rounds = Number(text)
  if (!Number.isInteger(rounds) || rounds < 1)
    throw new Error(`Expected BENCH_ROUNDS to be 1 or more, got ${text}`)
  return rounds
}

/** The order turns round every time: whoever goes first must not always be the same. */
async function runRound(contenders, round) {
  const figures = {}
  const order = round % 2 === 1 ? contenders : [...contenders].reverse()
  for (const { name, run } of order) figures[name] = await run(round)
  return figures
}

function judge(title, { metric, of, over, atLeast, atMost }, results) {
  const what = `${of} / ${over}, ${metric}`
  if (!(of in results[0] && over in results[0])) {
    console.log(`  ${what}: not measured`)
    process.send?.({ title, what, ratio: null, goal: '', met: false })
    return
  }
  verdict({
    title,
    what,
    ratios: results.map((figures) => figures[of][metric] / figures[over][metric]),
    atLeast,
    atMost,
  })
}
