/** Does killing what recovers 10,000 dead letters over 100 keys lose one, send one twice, or mix up a lane? */
import { run } from '../test/crash/scenarios/kill-replays.js'
import { runChaos } from './run.js'

await runChaos(run, ['sentAgain', 'killsInAStep', 'lanes'])
