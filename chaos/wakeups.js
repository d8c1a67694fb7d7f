/** Does a lane ever stand still with work waiting, when polling is not there to help? */
import { run } from '../test/crash/scenarios/wakeups.js'
import { runChaos } from './run.js'

await runChaos(run, ['rounds', 'publishedWhileTheLaneWasBusy'])
