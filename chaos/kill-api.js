/** Does killing the API lose an acknowledged event, store one twice, or run one out of its turn? */
import { run } from '../test/crash/scenarios/kill-api.js'
import { runChaos } from './run.js'

const vital = [
  'killsThatHitAPublish',
  'killsThatHitASettlement',
  'killsThatHitAPoll',
  'unknownFates',
  'replays',
  'abandoned',
  'takenBack',
]
await runChaos(run, vital, { secs: 120 })
