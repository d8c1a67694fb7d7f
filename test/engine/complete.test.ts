import { expect, test } from 'vitest'
import { complete } from '../../src/engine/complete.ts'
import { only, useEngines } from '../support/engine.ts'

const openEngine = useEngines('complete')

test('a run given by the lease that was lost and by the one that came after is completed for the latter only', async () => {
  const engine = await openEngine()
  const no = await engine.subscribe('s', ['note'])
  await engine.publish({ payload: 1 })
  const before = only(await engine.lease(no)).run
  // As a crash of the server leaves it that forgot the lease.
  await engine.db.query(`update ${engine.db.schema}.runs set state = 'ready', token = null`)
  const after = only(await engine.lease(no)).run
  expect(after.id).toBe(before.id)
  const requests = [before, after].map(({ id, token }) => ({
    runId: id,
    token,
    startedAfterMs: [0],
    executionMs: [1],
  }))
  expect(await complete(engine.db, requests)).toEqual([2])
  const { rows } = await engine.db.query(`select token::float8 from ${engine.db.schema}.audit`)
  expect(rows).toEqual([{ token: after.token }])
})
