/** Is an event that takes its process down the only one that is buried? */
import { run } from '../test/crash/scenarios/poison.js'
import { runChaos } from './run.js'

await runChaos(run, ['crashesThatHitALease', 'buried'])
