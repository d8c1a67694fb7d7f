import { testCatching } from './catching.ts'
import { seededBugs } from './seeded-bugs.ts'

// One that is found soon. The others are in seeded-bugs.long.test.ts.
testCatching(seededBugs.filter(({ name }) => name === 'a reclaim without guards'))
