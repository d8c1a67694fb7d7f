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

/** A test for each of these planted bugs. */
export function testControls(bugs: readonly string[]): void {
  test.each(bugs)('the driver finds the planted bug %s', { timeout: 600_000 }, async (bug) => {
    const database = await createTestDatabase('chaos_control')
    try {
      const found = await findPlanted(bug, { connection: database.connection })
      expect(controls[bug]?.rules).toContain(found?.rule)
    } finally {
      await database.drop()
    }
  })
}
