import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { urlOf } from './cli/process.ts'
import { createTestDatabase } from './support/database.ts'

/** The short one: all of them are run in `examples.long.test.ts`. */
test('the first example prints what it promises', async () => {
  const database = await createTestDatabase('first_example')
  onTestFinished(() => database.drop())
  const program = fileURLToPath(new URL('../examples/handler.js', import.meta.url))
  const env = { ...process.env, DATABASE_URL: urlOf(database.connection), LOG_LEVEL: 'silent' }
  const { stdout } = await promisify(execFile)(process.execPath, [program], { env, timeout: 120_000 })
  expect(stdout).toBe('receipt for order 7, attempt 2\n')
})
