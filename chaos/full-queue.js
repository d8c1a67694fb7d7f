/** Does a full queue keep to its depth under 64 publishers, and leave what it refuses no trace? */
import { run } from '../test/crash/scenarios/full-queue.js'
import { runChaos } from './run.js'

await runChaos(run, ['acked', 'refused', 'warned', 'taken'], { secs: 20 })
