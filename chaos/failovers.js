/** The driver's scenario of failovers: runs them, and tells what was broken. */
import { runFailover } from '../test/chaos/failover.js'
import { timelineOf } from '../test/chaos/timeline.js'
import { findPrograms } from '../test/support/replicas.js'

const usualSecs = 8
const shownMax = 10

export async function tellFailovers({ scenario, standby, runs, seed, secs, programs: wanted }) {
  if (scenario !== 'failover') throw new Error(`Expected --scenario to be failover, got ${scenario}.`)
  const programs = await findPrograms(wanted)
  if (programs === undefined) throw new Error('No programs of a PostgreSQL server were found.')
  let isHeadShown = false
  for (const isSynchronous of [true, false].filter((one) => standby !== (one ? 'async' : 'sync'))) {
    for (let run = 0; run < Number(runs); run++) {
      const options = { seed: Number(seed) + run, secs: Number(secs ?? usualSecs), isSynchronous, programs }
      const report = await runFailover(options)
      if (!isHeadShown) console.log(['standby', 'seed', ...Object.keys(report.counts)].join('\t'))
      isHeadShown = true
      console.log(
        [isSynchronous ? 'sync' : 'async', options.seed, ...Object.values(report.counts)].join('\t'),
      )
      if (!tell(report)) process.exitCode = 1
    }
  }
}

/** @returns whether all held, and something was shown */
function tell({ violations, counts, history }) {
  for (const { rule, text } of violations.slice(0, shownMax)) console.log(`VIOLATION ${rule}: ${text}`)
  const [first] = violations.filter(({ id }) => id !== undefined)
  if (first !== undefined) console.log(timelineOf(history, first).join('\n'))
  const isVacuous = !(counts.ackedAfter > 0) || counts.jumped !== 1
  if (isVacuous) console.log('VACUOUS nothing was published on the new primary, or ids did not jump once')
  return violations.length === 0 && !isVacuous
}
