import { testCatching } from './catching.ts'
import { seededBugs } from './seeded-bugs.ts'

testCatching(seededBugs)
