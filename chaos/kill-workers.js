/** Does killing workers lose events, or run one twice while its lease holds? */
import { run } from '../test/crash/scenarios/kill-workers.js'
import { runChaos } from './run.js'

await runChaos(run, ['killsThatHitALease', 'repeats'])
