/** Is the order of every lane kept through failures, kills, batches and several processes? */
import { run } from '../test/crash/scenarios/lanes.js'
import { runChaos } from './run.js'

await runChaos(run, ['killsThatHitALease', 'repeats', 'lanesOfSeveralProcesses', 'snoozed', 'buried'])
