import { expect, test } from 'vitest'
import { storedEvent } from '../../src/domain/stored-event.ts'
import { claimMemory } from '../../src/memory/claim-memory.ts'
import { forgetMemory, movePortion } from '../../src/memory/move-memory.ts'
import { persistMemory } from '../../src/memory/persist-memory.ts'
import { finishDrains } from '../../src/queues/queue-upkeep.ts'
import { useEngines } from '../support/engine.ts'
import { eventually } from '../support/signal.ts'

const openEngine = useEngines('memory_draining')

test('a queue that drains while it is moved to the database is not told as drained before all of it has run', async () => {
  const engine = await openEngine()
  const { db } = engine
  const no = await engine.subscribe('moving', ['note'])
  await engine.subscribe('empty', ['nothing'])
  await engine.subscribe('empty later', ['nothing'])
  const claim = { subscription: no, token: 1, worker: 'one' }
  await claimMemory(db, claim)
  const event = storedEvent({
    id: 7,
    type: 'note',
    payloadText: '1',
    orderingKey: null,
    createdAtMs: Date.now(),
  })
  await persistMemory(db, {
    ...{ ...claim, checkpoint: 0, depth: 1, changed: [], settled: [], isCleared: false },
    added: [{ event, laneKey: null, attempts: 0, failures: 0, dueAfterMs: null, lastError: null }],
    tally: { processed: 0, errors: 0, timed: 0, executionMs: 0, lastId: null },
  })
  /** All queues that are drained by the time that this one is, which nothing keeps from it. */
  const drainedWith = async (name: string) => {
    const told: string[] = []
    await db.query(
      `update ${db.schema}.subscriptions set status = 'draining', drain_fence = 100 where name in ($1, 'moving')`,
      [name],
    )
    await eventually(`${name} is drained`, async () => {
      told.push(...(await finishDrains(db)))
      return told.includes(name)
    })
    return told
  }
  expect(await drainedWith('empty')).toEqual(['empty'])
  await movePortion(db, { ...claim, ids: [7], left: 0, rowsMax: 10 })
  await forgetMemory(db, claim)
  const [delivery] = await engine.lease(no)
  await engine.settle(delivery as NonNullable<typeof delivery>)
  expect((await drainedWith('empty later')).toSorted()).toEqual(['empty later', 'moving'])
})
