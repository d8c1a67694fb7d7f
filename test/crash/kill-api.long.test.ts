import { expect, test } from 'vitest'
import { patience, runScenario } from './support/scenario.ts'

test(
  'an API that is killed stores every acknowledged event once, and loses nothing that its clients send again',
  patience,
  async () => {
    const vital = ['killsThatHitAPublish', 'unknownFates', 'replays', 'abandoned']
    const { violations } = await runScenario('kill-api', { seed: 5, secs: 5, vital })
    expect(violations).toEqual([])
  },
)
