import { afterAll, beforeAll, expect, test } from 'vitest'
import { describeFinding, explore, type Finding, runOnce } from './explore.ts'
import type { SeededBug } from './seeded-bugs.ts'
import { openStage, type Stage } from './stage.ts'

const runs = 40
/** Set to see what was found, made short. */
const shows = Boolean(process.env.POSTHORN_SIMULATION_SHOW)

/** A simulation that finds nothing shows nothing unless it finds what was put there to be found. */
export function testCatching(bugs: readonly SeededBug[]): void {
  let sound: Stage
  beforeAll(async () => {
    sound = await openStage()
  })
  afterAll(() => sound.close())

  test.each(bugs)('the checker catches $name', { timeout: 120_000 }, async (bug) => {
    const stage = await openStage(bug)
    try {
      const finding = await explore(stage, {
        seed: 1,
        runs,
        profile: bug.profile,
        shortenMsMax: shows ? 30_000 : 0,
      })
      if (shows) console.log(finding && describeFinding(finding))
      // By what it found broken, not by an error of the database.
      expect(finding?.message).toMatch(/^Broken: /)
      expect(await runOnce(sound, (finding as Finding).commands), 'the same without the bug').toBeUndefined()
    } finally {
      await stage.close()
    }
  })
}
