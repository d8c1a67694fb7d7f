import { expect, test } from 'vitest'
import { useEngines } from '../support/engine.ts'

const openEngine = useEngines('admit')

test('an analyze that found the queue empty does not make admissions crawl', async () => {
  const engine = await openEngine()
  const { db } = engine
  const no = await engine.subscribe('s', ['note'])
  await engine.publish({ payload: 1, orderingKey: 'first' })
  await engine.lease(no)
  await db.query(`analyze ${db.schema}.runs, ${db.schema}.inbox, ${db.schema}.lane_queue`)
  const lanes = 8_000
  for (let from = 0; from < lanes; from += 1_000) {
    await engine.publish(
      ...Array.from({ length: 1_000 }, (_, n) => ({ payload: 1, orderingKey: `k${from + n}` })),
    )
  }
  // Each lane against each other would be 64 million comparisons, beyond any statement's time.
  expect(await engine.lease(no)).toHaveLength(100)
  const { rows } = await db.query(`select count(*)::int as runs from ${db.schema}.runs`)
  expect(rows).toEqual([{ runs: 1 + lanes }])
})
