/** Do publishers on many keys in opposite orders deadlock, with each other or with settlements? */
import { run } from '../test/crash/scenarios/opposite-orders.js'
import { runChaos } from './run.js'

await runChaos(run, ['transactions', 'published'])
