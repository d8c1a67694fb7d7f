import { expect, test } from 'vitest'
import { peek } from '../../src/engine/peek.ts'
import { claimMemory } from '../../src/memory/claim-memory.ts'
import { admitAll, useEngines } from '../support/engine.ts'

const openEngine = useEngines('memory_peek')

test('a process does not look in vain, again and again, for what is stored of a queue that another has in memory', async () => {
  const engine = await openEngine()
  const { db } = engine
  const no = await engine.subscribe('s', ['note'])
  await claimMemory(db, { subscription: no, token: 7, worker: 'another' })
  await engine.publish({})
  await admitAll(engine)
  expect(await engine.lease(no)).toEqual([])
  expect((await peek(db, [no])).ready).toEqual([])
  expect((await peek(db, [no], [6])).ready).toEqual([])
  expect((await peek(db, [no], [7])).ready).toEqual([no])
  await db.query(`delete from ${db.schema}.memory_queues`)
  expect((await peek(db, [no])).ready).toEqual([no])
})
