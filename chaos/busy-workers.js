/** Is a delivery ever counted twice because its handler blocked the process past the lease? */
import { run } from '../test/crash/scenarios/busy-workers.js'
import { runChaos } from './run.js'

await runChaos(run, ['takenBackWhileAlone', 'acceptedLateWhileAlone', 'refusedWhileTogether'])
