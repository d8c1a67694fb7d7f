/** Does killing the database lose an acknowledged event, or run one again whose settlement was acknowledged? */
import { run } from '../test/crash/scenarios/kill-database.js'
import { runChaos } from './run.js'

await runChaos(run, ['outagesThatHitALease'])
