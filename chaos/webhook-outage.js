/** Do 10,000 webhooks outlast an outage of their receiver, in order, uncharged, and without falling on it when it is back? */
import { run } from '../test/crash/scenarios/webhook-outage.js'
import { runChaos } from './run.js'

await runChaos(run, ['refused', 'requests'])
