/** The chaos driver: draws from all operations and all faults, writes one history, and judges it. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { startEmbedded } from '../dist/db/embedded.js'
import { openBouncer, program } from '../test/chaos/bouncer.js'
import { findPlanted } from '../test/chaos/controls.js'
import { measureDamage, tellDamage } from '../test/chaos/damage.js'
import { runChaos } from '../test/chaos/main.js'
import { shrink } from '../test/chaos/shrink.js'
import { smallestHistory, tellHistory } from '../test/chaos/smallest-history.js'
import { timelineOf } from '../test/chaos/timeline.js'
import { addUp, missing } from '../test/chaos/vacuity.js'

const usualSecs = 60
const shrunkSecs = 15
const historyShrunkMs = 30_000
/** From then on every operation and every fault must have happened. */
const vacuousSecs = 300
/** From then on every operation must have met every fault. */
const apartSecs = 1_200
const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    /** How many seeds, from that one on. */
    seeds: { type: 'string', default: '1' },
    /** Of all seeds together. */
    secs: { type: 'string' },
    only: { type: 'string' },
    faults: { type: 'string', default: 'all' },
    database: { type: 'string' },
    /** `path`: the PostgreSQL on PATH instead of the bundled one. */
    postgres: { type: 'string', default: 'bundled' },
    /** A planted one, which is looked for where it shows, see controls.js. */
    bug: { type: 'string' },
    /** `none`: no worker goes through PgBouncer, even where there is one. */
    bouncer: { type: 'string', default: 'auto' },
    /** Seconds that may be spent on making a violation small. */
    shrink: { type: 'string', default: '180' },
    /** After a good run: how much of each kind of injected damage the checker notices. */
    damage: { type: 'boolean', default: false },
    /** `failover`: two servers, of which the first is killed and the second takes over. */
    scenario: { type: 'string' },
    /** Of a failover: `sync`, `async` or `both`. */
    standby: { type: 'string', default: 'both' },
    /** Of a failover: how many with each kind of standby. */
    runs: { type: 'string', default: '10' },
    /** Of a failover: `debian` or `embedded`; default whichever is there. */
    programs: { type: 'string' },
  },
})
if (values.scenario !== undefined) {
  const { tellFailovers } = await import('./failovers.js')
  await tellFailovers(values)
  process.exit()
}
const seed = Number(values.seed)
const seeds = Number(values.seeds)
const secs = Number(values.secs ?? usualSecs)
const directory = mkdtempSync(join(tmpdir(), 'posthorn-chaos-'))
const server =
  values.database === undefined
    ? await startEmbedded({ dataDirectory: join(directory, 'data'), binaries: values.postgres })
    : undefined
let bouncer
/** Processes end with their parent; the server and PgBouncer do not. */
const closeAll = async () => {
  await bouncer?.close()
  await server?.stop()
  rmSync(directory, { recursive: true, force: true })
}
for (const signal of ['SIGTERM', 'SIGINT'])
  process.once(signal, () => void closeAll().then(() => process.exit(2)))
try {
  const connection = server?.connection ?? addressOf(values.database)
  const log = (what) => console.log(`${new Date().toISOString()} ${what}`)
  log(server?.describe() ?? values.database)
  const only = values.only?.split(',')
  bouncer = values.bouncer === 'none' ? undefined : await openBouncer(connection)
  const options = { connection, server, seed, bouncer }
  if (values.bug !== undefined)
    process.exitCode = (await findPlanted(values.bug, { ...options, log })) ? 0 : 1
  else await runSeeds(options, { only, log })
} finally {
  await closeAll()
}

/** Seeds one after the other, each for its share of the time; what they did is added up. */
async function runSeeds(options, { only, log }) {
  const reports = []
  const met = new Set()
  for (let n = 0; n < seeds; n++) {
    const own = { ...options, seed: seed + n }
    const report = await runChaos({ ...own, met, secs: secs / seeds, only, faults: values.faults, log })
    log(`seed ${own.seed}: ${Math.round(report.secs)} s in all, ${report.violations.length} violations`)
    tellViolations(report)
    if (report.violations.length > 0) {
      keep(report, own.seed)
      await tellSmallest(report, own)
    } else if (values.damage) console.log(tellDamage(measureDamage(report)).join('\n'))
    const { counts, pairs, violations } = report
    reports.push({ counts, pairs, violations })
  }
  const summary = addUp(reports)
  for (const [what, count] of Object.entries(summary.counts)) console.log(`  ${what}: ${count}`)
  const isAll = only === undefined && values.faults === 'all'
  const isVacuous = isAll && tellMissing(summary)
  if (isVacuous || reports.some(({ violations }) => violations.length > 0)) process.exitCode = 1
  else console.log('held')
}

/** All that is known of a run that went wrong, for whoever looks into it. */
function keep({ history, answers, evidence, violations }, ofSeed) {
  const failed = history.filter(({ kind }) => kind === 'request failed')
  for (const { url, error, code } of failed)
    console.log(`  ${JSON.stringify({ url, code, error })}`.slice(0, 1_200))
  for (const row of evidence ?? []) console.log(`  ${JSON.stringify(row)}`.slice(0, 600))
  const path = join(tmpdir(), `posthorn-violation-${ofSeed}-${process.pid}.json`)
  writeFileSync(path, JSON.stringify({ violations, evidence, answers, history }))
  console.log(`KEPT ${path}`)
}

/** @returns whether too much of it never happened for a run of that length */
function tellMissing(summary) {
  const isHere = (what) => ({ server, bouncer })[what] !== undefined || what === undefined
  const { never, absent, apart } = missing(summary, { secs, isHere })
  if (bouncer === undefined) console.log(`NOT TRIED PgBouncer: ${program} is not here, or it was left out`)
  for (const fault of absent) console.log(`NOT TRIED fault ${fault}: it needs what is not here`)
  for (const what of never) console.log(`VACUOUS ${what}`)
  if (apart.length > 0)
    console.log(`VACUOUS ${apart.length} pairs of operation and fault never met: ${apart.join('; ')}`)
  return (secs >= vacuousSecs && never.length > 0) || (secs >= apartSecs && apart.length > 0)
}

function tellViolations({ violations, history }) {
  const byRule = new Map()
  for (const violation of violations)
    byRule.set(violation.rule, [...(byRule.get(violation.rule) ?? []), violation])
  for (const [rule, found] of byRule) {
    for (const { text } of found.slice(0, 8)) console.log(`VIOLATION ${rule}: ${text}`)
    if (found.length > 8) console.log(`VIOLATION ${rule}: and ${found.length - 8} more`)
    const [first] = found.filter(({ id }) => id !== undefined)
    if (first !== undefined) console.log(timelineOf(history, first).join('\n'))
  }
}

/** First the smallest history, of this run alone; then the run is repeated with fewer and fewer operations. */
async function tellSmallest({ violations, names, history, answers }, options) {
  const first = violations.find(({ id }) => id !== undefined)
  if (first !== undefined && answers !== undefined) {
    const left = smallestHistory({ history, answers }, first, {
      untilMs: performance.now() + historyShrunkMs,
    })
    console.log(`SMALLEST HISTORY that breaks "${first.rule}": ${left.length} of ${history.length} records`)
    console.log(tellHistory(left).join('\n'))
  }
  const untilMs = performance.now() + Number(values.shrink) * 1000
  const [{ rule }] = violations
  const run = (less) => runChaos({ ...options, ...less, secs: Math.min(secs, shrunkSecs) })
  const smallest = await shrink(run, { rule, only: names, untilMs, log: (what) => console.log(`  ${what}`) })
  const { only, faults, report } = smallest
  console.log(
    `SMALLEST that still breaks "${rule}": --seed ${options.seed} --only '${only.join(',')}' --faults ${faults}`,
  )
  if (report !== undefined) tellViolations(report)
}

function addressOf(url) {
  const { host, port, user, database, password } = new pg.Client({ connectionString: url })
  return { host, port, user, database, ...(password && { password }) }
}
