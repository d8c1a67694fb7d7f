/** Is an event skipped that was committed late, or delivered that was rolled back, or out of turn? */
import { run } from '../test/crash/scenarios/late-commits.js'
import { runChaos } from './run.js'

await runChaos(run, ['overtaken', 'rollbacks'])
