import { expect, test } from 'vitest'
import { storedEvent } from '../../src/domain/stored-event.ts'
import { reclaim } from '../../src/engine/reclaim.ts'
import { claimMemory } from '../../src/memory/claim-memory.ts'
import { markMemory } from '../../src/memory/complete-memory.ts'
import { forgetMemory, movePortion } from '../../src/memory/move-memory.ts'
import { persistMemory } from '../../src/memory/persist-memory.ts'
import { type Engine, only, useEngines } from '../support/engine.ts'

const openEngine = useEngines('memory_moving_crashed')

/** A queue whose process vanished while the first of these events was out, after so many failures of five; moved. */
async function moveCrashed(
  engine: Engine,
  no: number,
  { failures, laneKey }: { failures: number; laneKey: string | null },
): Promise<number[]> {
  const { db } = engine
  const claim = { subscription: no, token: 1, worker: 'vanished' }
  await claimMemory(db, claim)
  const ids = [7, 8]
  const added = ids.map((id, place) => ({
    event: storedEvent({ id, type: 'note', payloadText: '1', orderingKey: laneKey, createdAtMs: Date.now() }),
    laneKey,
    ...(place === 0
      ? { attempts: failures, failures, dueAfterMs: null, lastError: failures > 0 ? 'not yet' : null }
      : { attempts: 0, failures: 0, dueAfterMs: null, lastError: null }),
  }))
  await persistMemory(db, {
    ...{ ...claim, checkpoint: 0, depth: 2, added, changed: [], settled: [], isCleared: false },
    tally: { processed: 0, errors: 0, timed: 0, executionMs: 0, lastId: null },
  })
  expect(await markMemory(db, { ...claim, eventId: 7 })).toBe(true)
  expect(await movePortion(db, { ...claim, ids, left: 0, rowsMax: 10 })).toBe(2)
  expect(await forgetMemory(db, claim)).toBe(true)
  return ids
}

async function auditOf({ db }: Engine, eventId: number): Promise<object[]> {
  const { rows } = await db.query(
    `select settlement, cause, attempt, failures from ${db.schema}.audit where event_id = $1 order by id`,
    [eventId],
  )
  return rows
}

test.each([null, 'k'])(
  'a delivery that ended its process once too often is buried when its queue is moved, not tried again (key %s)',
  async (laneKey) => {
    const engine = await openEngine()
    const no = await engine.subscribe('s', ['note'])
    await moveCrashed(engine, no, { failures: 4, laneKey })
    const { charged } = await reclaim(engine.db)
    expect(charged).toMatchObject([{ eventId: 7, failures: 5, buried: true }])
    expect(await auditOf(engine, 7)).toEqual([
      { settlement: 'retried', cause: null, attempt: 4, failures: 4 },
      { settlement: 'buried', cause: 'lease_expired', attempt: 5, failures: 5 },
    ])
    expect(only(await engine.lease(no)).event.id).toBe(8)
  },
)

test('a lane that is to stop at a buried head stops when its queue is moved', async () => {
  const engine = await openEngine()
  const no = await engine.subscribe('s', ['note'], { onExhausted: 'block' })
  await moveCrashed(engine, no, { failures: 4, laneKey: 'k' })
  await reclaim(engine.db)
  expect(await engine.lease(no)).toEqual([])
  const { rows } = await engine.db.query(
    `select state, blocked_by::int, event_ids::int[] from ${engine.db.schema}.runs`,
  )
  expect(rows).toEqual([{ state: 'blocked', blocked_by: 7, event_ids: [8] }])
})

test.each([null, 'k'])(
  'a delivery that was out when its process vanished is charged, and its log says so, when its queue is moved (key %s)',
  async (laneKey) => {
    const engine = await openEngine()
    const no = await engine.subscribe('s', ['note'])
    await moveCrashed(engine, no, { failures: 0, laneKey })
    await reclaim(engine.db)
    expect(await auditOf(engine, 7)).toEqual([
      { settlement: 'lease_expired', cause: null, attempt: 1, failures: 1 },
    ])
    const [first] = await engine.lease(no)
    expect(first).toMatchObject({ event: { id: 7 }, attempt: 2, failures: 1, run: { suspect: true } })
  },
)
