/** Does a memory queue lose more than what came after its last persist, or run again what it covers? */
import { run } from '../test/crash/scenarios/memory.js'
import { runChaos } from './run.js'

await runChaos(run, ['kills', 'killsAtACommit', 'lost', 'settled'])
