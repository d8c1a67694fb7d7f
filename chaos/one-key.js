/** Does one idempotency key ever make two events? */
import { run } from '../test/crash/scenarios/one-key.js'
import { runChaos } from './run.js'

await runChaos(run, ['rolledBack', 'roundsThatWaitedForTheFirst'])
