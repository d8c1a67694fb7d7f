import { expect, test } from 'vitest'
import { apartFromTime, patience, run } from './driving.ts'

test('lanes go on whatever expires or is cancelled as their heads complete', patience, async () => {
  const { violations, counts } = await run({ seed: 2, secs: 8, faults: 'none', only: ['lanes'] })
  expect(apartFromTime(violations)).toEqual([])
  expect(counts['publish.many ok']).toBeGreaterThan(2)
})

test('batches keep their order, and what is sent again comes through a changed gate', patience, async () => {
  const { violations, counts } = await run({ seed: 3, secs: 7, faults: 'none', only: ['batch', 'gate'] })
  expect(apartFromTime(violations)).toEqual([])
  expect(counts.attempts).toBeGreaterThan(100)
})
