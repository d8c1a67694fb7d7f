import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/server.ts'],
    reporters: ['default', './test/support/summary-reporter.ts'],
    pool: 'forks',
    // One more than cores: tests wait for timers and for the server a fifth of the time.
    maxWorkers: 3,
    // Some tests do ten thousand rounds: generous, so that a busy machine does not fail them.
    testTimeout: 240_000,
    hookTimeout: 60_000,
    // The usual second is too short on a busy machine.
    expect: { poll: { timeout: 20_000 } },
  },
})
