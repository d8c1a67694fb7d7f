import { testControls } from './controlling.ts'

/** Those that are found in half a minute. The others need longer: `npm run chaos -- --bug name` looks for one of them. */
testControls([
  'lease-behind-head',
  'unguarded-reclaim',
  'batch-loses-order',
  'unreadable-key',
  'lanes-fall-asleep',
  'redrive-strands',
])
