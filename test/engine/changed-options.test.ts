import { describe, expect, test } from 'vitest'
import { createReplay } from '../../src/deliveries/create-replay.ts'
import { listDeadLetters } from '../../src/deliveries/dead-letters.ts'
import { discardLetter, redrive, retryWaiting, unblockLane } from '../../src/deliveries/repair.ts'
import { reset } from '../../src/deliveries/reset.ts'
import { stepReplay } from '../../src/deliveries/step-replay.ts'
import type { LeasedDelivery } from '../../src/domain/delivery.ts'
import { planRecover, planReplay, type ReplayPlan } from '../../src/domain/replay.ts'
import { release } from '../../src/engine/release.ts'
import { admitAll, type Engine, only, useEngines, workOff } from '../support/engine.ts'
import { eventually } from '../support/signal.ts'

const openEngine = useEngines('changed_options', { schemas: 'emptied' })

type Columns = 'key_concurrency' | 'key_path' | 'on_exhausted'

async function change(engine: Engine, no: number, column: Columns, value: unknown): Promise<void> {
  await engine.db.query(`update ${engine.db.schema}.subscriptions set ${column} = $2 where no = $1`, [
    no,
    value,
  ])
}

/** The first of what is ready now. */
async function leaseHead(engine: Engine, no: number): Promise<LeasedDelivery> {
  return (await engine.lease(no))[0] as LeasedDelivery
}

/** What came with it in one run, and has not begun. */
async function handBackRest(engine: Engine, { run }: LeasedDelivery): Promise<void> {
  await release(engine.db, [{ runId: run.id, token: run.token }])
}

async function sendAgain(engine: Engine, no: number, plan: ReplayPlan): Promise<void> {
  await createReplay(engine.db, { plan, subscription: no, by: 'olga', identical: 'same' })
  while ((await stepReplay(engine.db)) !== undefined);
}

const again = {
  redrive: async (engine: Engine) => {
    const letter = only((await listDeadLetters(engine.db)).deadLetters)
    expect(await redrive(engine.db, { deadLetterIds: [letter.id], by: 'olga' })).toHaveLength(1)
  },
  recover: (engine: Engine, no: number) =>
    sendAgain(engine, no, planRecover({ since: new Date('2020-01-01T00:00:00Z') })),
  replay: (engine: Engine, no: number, eventId: number) =>
    sendAgain(engine, no, planReplay({ eventIds: [eventId] })),
}

const options: readonly { was: string; column: Columns; before: unknown; after: unknown }[] = [
  { was: 'key concurrency was added', column: 'key_concurrency', before: null, after: 1 },
  { was: 'key concurrency was removed', column: 'key_concurrency', before: 1, after: null },
  { was: 'key concurrency was raised', column: 'key_concurrency', before: 1, after: 2 },
  { was: 'an ordering key of its own was added', column: 'key_path', before: null, after: ['title'] },
  { was: 'an ordering key of its own was removed', column: 'key_path', before: ['title'], after: null },
  { was: 'blocking was ended', column: 'on_exhausted', before: 'block', after: 'skip' },
]
const verbs = ['redrive', 'recover', 'replay'] as const
const shapes = [
  { of: 'a blocked lane', onExhausted: 'block', fields: { orderingKey: 'a' } },
  { of: 'a lane that went on', onExhausted: 'skip', fields: { orderingKey: 'a' } },
  { of: 'no lane', onExhausted: 'block', fields: {} },
] as const

const cases = options.flatMap((option) =>
  shapes.flatMap((shape) => verbs.map((verb) => ({ ...option, ...shape, verb }))),
)

test.each(cases)('$verb of $of brings back each delivery once though $was meanwhile', async (one) => {
  const { column, before, after, fields, onExhausted, verb } = one
  const engine = await openEngine()
  const no = await engine.subscribe('s', ['note'], { onExhausted })
  await change(engine, no, column, before)
  const event = { ...fields, concurrencyKey: 'c', title: 't' }
  const ids = await engine.publish(event, event, event)
  const head = await leaseHead(engine, no)
  await engine.settle(head, { settlement: 'buried', reason: 'broken' })
  await handBackRest(engine, head)
  await change(engine, no, column, after)
  // The change itself left notes for the gates: they are used up now.
  await admitAll(engine)

  await again[verb](engine, no, head.event.id)
  const worked = await workOff(engine, no)
  if (one.of === 'a blocked lane') expect(worked).toEqual(ids)
  expect([...worked].sort((a, b) => a - b)).toEqual(ids)
})

describe('a gate is never left alone:', () => {
  const gated = { concurrencyKey: 'c' }

  test.each([
    { to: 'raised', value: 3 },
    { to: 'removed', value: null },
  ])('what waits at it goes on as soon as key concurrency is $to', async ({ value }) => {
    const engine = await openEngine()
    const no = await engine.subscribe('s', ['note'])
    await change(engine, no, 'key_concurrency', 1)
    const ids = await engine.publish(gated, gated, gated)
    const held = only(await engine.lease(no))
    await change(engine, no, 'key_concurrency', value)
    const others = await engine.lease(no)
    expect([held, ...others].map(({ event }) => event.id)).toEqual(ids)
  })

  test.each([
    { to: 'raised', value: 3 },
    { to: 'removed', value: null },
  ])(
    'what an admission under way sends to it goes on though key concurrency is $to meanwhile',
    async ({ value }) => {
      const engine = await openEngine()
      const { schema } = engine.db
      const no = await engine.subscribe('s', ['note'])
      await change(engine, no, 'key_concurrency', 1)
      const ids = await engine.publish(gated)
      const held = only(await engine.lease(no))
      ids.push(...(await engine.publish(gated)))
      let isChanged = false
      let changed: Promise<void> | undefined
      await engine.db.transaction(async (tx) => {
        await tx.query(`select ${schema}.admit(null, null, null, null, 1000)`)
        changed = change(engine, no, 'key_concurrency', value).then(() => {
          isChanged = true
        })
        const waiters = `select 1 from pg_locks where locktype = 'advisory' and not granted
          and database = (select oid from pg_database where datname = current_database())`
        await eventually('the change is done, or waits for the admission', async () =>
          isChanged ? true : (await tx.query(waiters)).rows.length > 0,
        )
      })
      await changed
      const others = await engine.lease(no)
      expect([held, ...others].map(({ event }) => event.id)).toEqual(ids)
    },
  )

  test.each([
    { was: 'added', before: null, after: 1 },
    { was: 'removed', before: 1, after: null },
  ])(
    'retry, reset and unblocking find what waits, though key concurrency was $was',
    async ({ before, after }) => {
      const engine = await openEngine()
      const no = await engine.subscribe('s', ['note'], { onExhausted: 'block' })
      await change(engine, no, 'key_concurrency', before)
      const keys = ['retried', 'reset', 'skipped', 'discarded', 'thrown away']
      const events = keys.map((orderingKey) => ({ orderingKey, concurrencyKey: orderingKey }))
      const ids = await engine.publish(...events, ...events)
      const heads = (await engine.lease(no)).filter(({ event }) => event.id <= (ids[4] as number))
      expect(heads).toHaveLength(5)
      for (const head of heads) {
        if (head.event.orderingKey === 'reset') continue
        const settlement = head.event.orderingKey === 'retried' ? 'retried' : 'buried'
        await engine.settle(head, { settlement, afterMs: settlement === 'retried' ? 3_600_000 : null })
      }
      await change(engine, no, 'key_concurrency', after)

      const { deadLetters } = await listDeadLetters(engine.db)
      const thrown = deadLetters.find(({ eventId }) => eventId === ids[4])
      await retryWaiting(engine.db, { eventId: ids[0] as number, subscription: no, by: 'olga' })
      await reset(engine.db, { eventId: ids[1] as number, reason: 'reset' })
      await unblockLane(engine.db, { subscription: no, orderingKey: 'skipped', verb: 'skip' })
      await unblockLane(engine.db, { subscription: no, orderingKey: 'discarded', verb: 'discard' })
      expect(await discardLetter(engine.db, { id: thrown?.id as string, by: 'olga' })).toBe(true)
      expect((await workOff(engine, no)).sort((a, b) => a - b)).toEqual([...ids.slice(0, 2), ...ids.slice(5)])
    },
  )
})
