import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { portionsOf } from '../../src/core/portions.ts'
import { useHubs } from '../support/hub.ts'

/** A memory queue with more events than one transaction moves to the database. */

const hubs = useHubs('memory_moving_long')
const inMemory = { name: 'm', storage: 'memory' } as const
const inDatabase = { name: 'm' } as const
const never = () => new Promise<void>(() => undefined)
/** How many events one transaction moves, unless a lane is longer. */
const eventsMax = 1_000

interface Planned {
  readonly payload: number
  readonly orderingKey: string | null
}

async function connect(): Promise<pg.Client> {
  const client = new pg.Client(hubs.connection)
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

/** Leaves these in a memory queue that nobody has. */
async function leaveInMemory(schema: string, events: readonly Planned[]): Promise<void> {
  const { hub } = await hubs.open({ schema })
  hub.on('t', inMemory, never)
  await hub.start()
  for (const portion of portionsOf(events, { itemsMax: 500 })) {
    await hub.publishMany(portion.map((event) => ({ type: 't', ...event })))
  }
  await hub.stop({ graceMs: 0 })
}

/** Every fifth has no lane, the others take turns in thirty lanes. */
const mixed = Array.from({ length: 3_500 }, (_, n) => ({
  payload: n,
  orderingKey: n % 5 === 0 ? null : `k${n % 31}`,
}))

test('a long memory queue that moves to the database does not keep all lanes from going on until it is done', async () => {
  const events = [
    ...mixed,
    ...Array.from({ length: 1_200 }, (_, n) => ({ payload: 4_000 + n, orderingKey: 'long' })),
  ]
  await leaveInMemory('portions', events)
  const second = await hubs.open({ schema: 'portions' })
  second.hub.on('t', inDatabase, never)
  await second.hub.start()
  const client = await connect()
  const { rows } = await client.query<{ events: number; long: number }>(
    `select count(*)::int as events, count(*) filter (where ordering_key = 'long')::int as long
    from portions.events group by xmin`,
  )
  expect(rows.length).toBeGreaterThan(3)
  for (const { events: moved, long } of rows) expect(moved - long).toBeLessThanOrEqual(eventsMax)
  expect(rows.filter(({ long }) => long > 0)).toMatchObject([{ long: 1_200 }])
  await expectMoved(client, 'portions', events)
})

test('a move that fails halfway has moved each lane as a whole or not at all, and the next start moves the rest', async () => {
  await leaveInMemory('halfway', mixed)
  const client = await connect()
  await client.query(`create function halfway.refuse() returns trigger language plpgsql as $$
      begin if (select count(*) from halfway.events) > 2000 then raise 'halfway'; end if; return null; end $$;
    create trigger refuse after insert on halfway.events execute function halfway.refuse()`)
  const second = await hubs.open({ schema: 'halfway' })
  second.hub.on('t', inDatabase, never)
  await expect(second.hub.start()).rejects.toThrow('halfway')
  const split = await client.query(
    `select 1 from halfway.memory_events m join halfway.events e on e.ordering_key = m.lane_key`,
  )
  expect(split.rows).toEqual([])
  const { rows: depths } = await client.query(
    `select q.depth = (select count(*) from halfway.memory_events) as is_right, q.depth > 0 as is_some, q.token
    from halfway.memory_queues q`,
  )
  expect(depths).toEqual([{ is_right: true, is_some: true, token: null }])
  const moved = await client.query('select 1 from halfway.events')
  expect(moved.rows.length).toBeGreaterThan(0)
  await client.query('drop trigger refuse on halfway.events')

  const third = await hubs.open({ schema: 'halfway' })
  third.hub.on('t', inDatabase, never)
  await third.hub.start()
  await expectMoved(client, 'halfway', mixed)
})

test('a move whose claim another process has taken meanwhile moves nothing more', async () => {
  await leaveInMemory('taken', mixed)
  const client = await connect()
  await client.query(`create function taken.take() returns trigger language plpgsql as $$
      begin update taken.memory_queues set token = 1, held_until = clock_timestamp() + interval '1 hour'; return null; end $$;
    create trigger take after insert on taken.runs execute function taken.take()`)
  const second = await hubs.open({ schema: 'taken' })
  second.hub.on('t', inDatabase, never)
  await expect(second.hub.start()).rejects.toMatchObject({ code: 'QUEUE_TAKEN' })
  expect((await client.query('select 1 from taken.events')).rows.length).toBeLessThanOrEqual(eventsMax)
  expect((await client.query('select token::int from taken.memory_queues')).rows).toEqual([{ token: 1 }])
})

/** Each event is in the database once, and each lane is in the order of its events. */
async function expectMoved(client: pg.Client, schema: string, events: readonly Planned[]): Promise<void> {
  const { rows } = await client.query<{ key: string | null; payloads: number[] }>(
    `select w.ordering_key as key, array_agg(e.payload::int order by w.position, u.place) as payloads
    from (
      select r.ordering_key, r.position, r.event_ids from ${schema}.runs r
      union all
      select q.ordering_key, q.position, q.event_ids from ${schema}.lane_queue q
    ) as w
    cross join lateral unnest(w.event_ids) with ordinality as u(event_id, place)
    join ${schema}.events e on e.id = u.event_id
    group by w.ordering_key`,
  )
  const moved = new Map(rows.map(({ key, payloads }) => [key, payloads]))
  moved.get(null)?.sort((a, b) => a - b)
  const expected = groupByKey(events)
  expect(moved.size).toBe(expected.size)
  for (const [key, lane] of expected) expect(moved.get(key)).toEqual(lane.map(({ payload }) => payload))
}

function groupByKey(events: readonly Planned[]): Map<string | null, Planned[]> {
  const lanes = new Map<string | null, Planned[]>()
  for (const event of events) lanes.set(event.orderingKey, [...(lanes.get(event.orderingKey) ?? []), event])
  return lanes
}
