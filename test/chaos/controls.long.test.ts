import { expect, test } from 'vitest'
import { createTestDatabase } from '../support/database.ts'
import type { ServerAddress } from '../support/server.ts'

interface Options {
  readonly connection: ServerAddress
  readonly log?: (line: string) => void
}
interface Control {
  readonly rules: readonly string[]
}

const { controls, findPlanted } = (await import(new URL('./controls.js', import.meta.url).href)) as {
  controls: Readonly<Record<string, Control>>
  findPlanted: (bug: string, options: Options) => Promise<{ rule: string } | undefined>
}

/** Those that are found in half a minute. The others need longer: `npm run chaos -- --bug name` looks for one of them. */
const quick = [
  'lease-behind-head',
  'unguarded-reclaim',
  'batch-loses-order',
  'unreadable-key',
  'frozen-owner',
  'lanes-fall-asleep',
  'redrive-strands',
]

test.each(quick)('the driver finds the planted bug %s', { timeout: 600_000 }, async (bug) => {
  const database = await createTestDatabase('chaos_control')
  try {
    const found = await findPlanted(bug, { connection: database.connection })
    expect(controls[bug]?.rules).toContain(found?.rule)
  } finally {
    await database.drop()
  }
})
