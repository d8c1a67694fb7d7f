/** Does a worker that was frozen past its lease still count for anything? */
import { run } from '../test/crash/scenarios/freeze-workers.js'
import { runChaos } from './run.js'

await runChaos(run, ['freezesThatHitALease', 'lateSettlementsRefused', 'rolledBack'])
