/** Does a receiver of webhooks see a lane out of order, with a gap or two at once, when dispatchers are killed? */
import { run } from '../test/crash/scenarios/webhooks.js'
import { runChaos } from './run.js'

const vital = ['killsThatHitARequest', 'stops', 'lanesOfSeveralProcesses', 'repeats', 'skips', 'deadLetters']
await runChaos(run, vital, { secs: 120 })
