/** Are the limits over the whole fleet ever exceeded? */
import { run } from '../test/crash/scenarios/limits.js'
import { runChaos } from './run.js'

await runChaos(run, ['mostAtOnce', 'mostAtOncePerKey', 'mostWithinASecond'])
