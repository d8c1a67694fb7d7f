import { defineConfig } from 'vitest/config'
import { SlowFirst } from './test/support/slow-first.ts'

/** What takes long by its nature: `npm run test:long`. Each kind has a short one of its own in `npm test`. */
const long = 'test/**/*.long.test.ts'
/** They replace modules for themselves, which the files that share a process would notice. */
const alone = ['test/chaos/planted-bugs.test.ts']

const shared = {
  pool: 'forks',
  // Twice as many as cores, since tests also wait for timers and for the server.
  maxWorkers: 4,
  // Some tests do ten thousand rounds: generous, so that a busy machine does not fail them.
  testTimeout: 240_000,
  hookTimeout: 240_000,
  // The usual second is too short on a busy machine.
  expect: { poll: { timeout: 60_000 } },
} as const

export default defineConfig({
  test: {
    globalSetup: ['test/support/server.ts'],
    sequence: { sequencer: SlowFirst },
    reporters: ['default', './test/support/summary-reporter.ts'],
    projects: [
      {
        test: {
          ...shared,
          name: 'short',
          include: ['test/**/*.test.ts'],
          exclude: [long, ...alone],
          // Else each of 230 files loads all of the code anew, which takes longer than most of them.
          isolate: false,
        },
      },
      { test: { ...shared, name: 'alone', include: alone } },
      // Most of these start processes of their own, so that fewer of them fit; where both parts run, they run last.
      { test: { ...shared, maxWorkers: 3, sequence: { groupOrder: 1 }, name: 'long', include: [long] } },
    ],
  },
})
