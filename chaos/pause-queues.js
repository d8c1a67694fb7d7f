/** Does a queue that is paused, drained and resumed under load lose, double or misorder anything, or begin too late? */
import { run } from '../test/crash/scenarios/pause-queues.js'
import { runChaos } from './run.js'

await runChaos(run, ['pauses', 'drains'])
