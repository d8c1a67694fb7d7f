/**
 * B11: does pruning 1,000,000 finished events hurt those who work meanwhile?
 * Goals: no statement of it takes longer than 1 s, and a claim's p99 stays within 2 × of what it is without.
 *
 * Pruning goes at the pace of upkeep, with its pauses, beside a steady stream of claims: one event is published, leased and
 * settled every 20 ms. What is measured is the lease. BENCH_EVENTS makes it fewer events.
 */
import { loadavg } from 'node:os'
import { fillFinished, leftOver, openPruning } from './prune-stock.js'
import { verdict } from './rounds.js'
import { givenServers } from './server.js'
import { formatNumber, formatRow, quantile } from './table.js'
import { pause } from './workload.js'

const count = Number(process.env.BENCH_EVENTS ?? 1_000_000)
const everyMs = 20
const warmUpMs = 5_000
const beforeMs = 30_000
const title = `B11 pruning ${count.toLocaleString('en-US')} finished events`
const widths = [24, 10, 10, 10, 10]

const pruning = await openPruning(givenServers())
await fillFinished(pruning.db, count)
console.log(`\n${title}, with a claim every ${everyMs} ms; load ${loadavg()[0].toFixed(1)}`)
console.log(formatRow(['', 'claims', 'p50 ms', 'p99 ms', 'max ms'], widths))

await claimFor(warmUpMs)
const before = await claimFor(beforeMs)
report('before', before)
const { promise: pruned, stop } = pruning.start()
const during = await claimUntil(pruned)
const { steps, seconds, longest } = await pruned
await stop()
report('while pruning', during)
report('after', await claimFor(warmUpMs))

const left = await leftOver(pruning.db, count)
await pruning.close()
if (left.events + left.audit > 0) throw new Error(`Expected nothing to be left, got ${JSON.stringify(left)}`)
console.log(
  `  ${steps} rounds in ${formatNumber(seconds)} s; the longest statement: ${longest.name}, ${formatNumber(longest.ms)} ms`,
)
verdict({ title, what: 'longest statement / 1 s', ratios: [longest.ms / 1000], atMost: 1 })
verdict({
  title,
  what: 'while / before, p99 of a claim',
  ratios: [quantile(during, 0.99) / quantile(before, 0.99)],
  atMost: 2,
})
if (longest.ms > 1000 || quantile(during, 0.99) > 2 * quantile(before, 0.99)) process.exitCode = 1

function claimFor(ms) {
  return claimUntil(pause(ms))
}

/** At a steady pace: a claim that takes long does not lead to fewer of them, but to one that begins late. */
async function claimUntil(end) {
  let isOver = false
  end.finally(() => {
    isOver = true
  })
  const times = []
  for (let next = performance.now(); !isOver; next += everyMs) {
    const waitMs = next - performance.now()
    if (waitMs > 0) await pause(waitMs)
    times.push(await pruning.claim())
  }
  return times
}

function report(name, times) {
  const figures = [quantile(times, 0.5), quantile(times, 0.99), Math.max(...times)]
  console.log(formatRow([name, String(times.length), ...figures.map(formatNumber)], widths))
}
