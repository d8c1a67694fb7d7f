/** Does a worker that is told to stop leave a lease behind, or count what it hands back? */
import { run } from '../test/crash/scenarios/stop-workers.js'
import { runChaos } from './run.js'

await runChaos(run, ['stopsThatHitALease', 'handedBack'])
