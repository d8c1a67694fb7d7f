import { beforeAll, describe, expect, test } from 'vitest'
import type { Order } from '../../src/core/paging.ts'
import type { PostgresDatabase } from '../../src/db/postgres.ts'
import { type EventStatus, eventStatuses } from '../../src/domain/status.ts'
import { type EventFilter, listEvents, listUnfinished } from '../../src/events/list-events.ts'
import { searchPayload } from '../../src/events/search-payload.ts'
import { useEngines } from '../support/engine.ts'
import { allPages, noTime, oneWindow, unbounded } from '../support/list-bounds.ts'

/** Every filter with every status, from either end and with hardly any work per call, agrees with a look at every event. */

const openEngine = useEngines('event_walk')
const count = 500
/** Over several blocks of the index on tags. */
const idOf = (n: number) => n * 82
const begin = Date.UTC(2024, 0, 1)
const timeOf = (n: number) => new Date(begin + n * 10_000)

const filters: EventFilter[] = [
  {},
  { type: 'a.x' },
  { type: 'a.*' },
  { type: 'late' },
  { type: 'none.*' },
  { type: '*', createdTo: timeOf(10) },
  { tags: ['p'] },
  { tags: ['q', 'r'] },
  { tags: ['late'] },
  { orderingKey: 'k' },
  { createdFrom: timeOf(150), createdTo: timeOf(350) },
  { type: 'a.x', tags: ['p'] },
  { type: 'a.*', tags: ['late'] },
  { type: 'a.y', orderingKey: 'k' },
  { tags: ['late'], orderingKey: 'k' },
  { tags: ['p'], createdFrom: timeOf(250), createdTo: timeOf(450) },
  { type: 'a.*', createdTo: timeOf(200) },
  { orderingKey: 'k', createdFrom: timeOf(350) },
]
const orders: Order[] = ['asc', 'desc']

let db: PostgresDatabase
let stored: StoredRow[]

interface StoredRow {
  readonly id: number
  readonly type: string | null
  readonly tags: string[] | null
  readonly orderingKey: string | null
  readonly createdAt: Date
  readonly status: EventStatus
}

beforeAll(async () => {
  const engine = await openEngine()
  db = engine.db
  for (const name of ['one', 'two', 'three']) await engine.subscribe(name, [])
  await db.transaction((tx) =>
    fill((text, values) => tx.query(text.replaceAll('posthorn.', `${db.schema}.`), values)),
  )
  await db.query('analyze')
  const { rows } = await db.query<StoredRow>(
    `select e.id, e.type, e.tags, e.ordering_key as "orderingKey", e.created_at as "createdAt", s.status
    from ${db.schema}.events e
    cross join lateral ${db.schema}.event_states(array[e.id]) as s
    order by e.id`,
  )
  stored = rows
})

test('the stock has events of every status', () => {
  const found = new Set(stored.map(({ status }) => status))
  expect([...found].sort()).toEqual([...eventStatuses].sort())
})

describe.each([undefined, ...eventStatuses])('of status %s', (status) => {
  const asked = filters.map((filter): EventFilter => (status === undefined ? filter : { ...filter, status }))

  test('a list has every event once, and their number', async () => {
    for (const [filter, order] of combine(asked, orders)) {
      const expected = expectedIds(filter, order)
      const pages = await allPages((cursor) =>
        listEvents(db, { ...filter, order, limit: 50, ...cursor }, unbounded),
      )
      const ids = pages.flatMap(({ events }) => events.map(({ id }) => id))
      expect([filter, ids]).toEqual([filter, expected])
      for (const { total, totalIsEstimate, searchedTo } of pages) {
        expect([filter, total, totalIsEstimate, searchedTo]).toEqual([filter, expected.length, false, null])
      }
    }
  })

  test('short pages lead to every event, and say how far each searched', async () => {
    for (const [at, filter] of asked.entries()) {
      const order = at % 2 === 0 ? 'asc' : 'desc'
      const bounds = at % 3 === 0 ? noTime : oneWindow
      const pages = await allPages((cursor) =>
        listEvents(db, { ...filter, order, limit: 40, ...cursor }, bounds),
      )
      const ids = pages.flatMap(({ events }) => events.map(({ id }) => id))
      expect([filter, ids]).toEqual([filter, expectedIds(filter, order)])
      for (const { events, searchedTo, nextCursor } of pages) {
        const isShort = events.length < 40 && nextCursor !== null
        expect([filter, searchedTo]).toEqual([filter, isShort ? expect.any(Date) : null])
      }
      const last = pages.at(-1)
      expect([filter, last?.total, last?.totalIsEstimate]).toEqual([filter, ids.length, false])
    }
  })

  test('an offset is kept across short pages', async () => {
    for (const filter of asked.slice(0, 7)) {
      for (const offset of [1, 40, 400]) {
        const first = await listEvents(db, { ...filter, limit: 30, offset }, oneWindow)
        const { nextCursor: cursor } = first
        const rest =
          cursor === null
            ? []
            : await allPages((next) => listEvents(db, { ...filter, limit: 30, cursor, ...next }, oneWindow))
        const ids = [first, ...rest].flatMap(({ events }) => events.map(({ id }) => id))
        expect([filter, offset, ids]).toEqual([filter, offset, expectedIds(filter, 'asc').slice(offset)])
      }
    }
  })

  test('what is unfinished is found page by page, and so is a value in payloads', async () => {
    for (const filter of asked.slice(0, 9)) {
      const unfinished = await allPages((cursor) =>
        listUnfinished(db, { ...filter, limit: 60, ...cursor }, oneWindow),
      )
      const expected = stored.filter(
        (event) => isAsked(event, filter) && ['PENDING', 'PROCESSING'].includes(event.status),
      )
      const ids = unfinished.flatMap(({ eventIds }) => eventIds)
      expect([filter, ids]).toEqual([filter, expected.map(({ id }) => id)])

      const search = { createdFrom: timeOf(0), ...filter, paths: [{ path: ['odd'], value: 'true' }] }
      const pages = await allPages((cursor) =>
        searchPayload(db, { ...search, limit: 30, ...cursor }, oneWindow),
      )
      const found = pages.flatMap(({ events }) => events.map(({ id }) => id))
      const odd = expectedIds(filter, 'asc').filter((id) => (id / idOf(1)) % 2 === 1)
      expect([filter, found]).toEqual([filter, odd])
    }
  })
})

test('a total beyond 1,000 matches is extrapolated, and never above what is stored', async () => {
  const engine = await openEngine()
  const { schema } = engine.db
  await engine.db.query(
    `insert into ${schema}.events (id, type, payload, owed, created_at)
    select n + case when n > 3000 then 1000000 else 0 end, case when n % 2 = 0 then 'even' else 'odd' end, '1', '{}', ${schema}.clock()
    from generate_series(1, 4000) as n`,
  )
  const { total, totalIsEstimate } = await listEvents(engine.db, { type: 'even' }, unbounded)
  expect(totalIsEstimate).toBe(true)
  expect(total).toBeGreaterThan(1000)
  expect(total).toBeLessThanOrEqual(4000)
  const all = await listEvents(engine.db, {}, unbounded)
  expect(all).toMatchObject({ total: 4000, totalIsEstimate: false })
})

function combine<A, B>(first: readonly A[], second: readonly B[]): [A, B][] {
  return first.flatMap((one) => second.map((other): [A, B] => [one, other]))
}

function expectedIds(filter: EventFilter, order: Order): number[] {
  const ids = stored.filter((event) => isAsked(event, filter)).map(({ id }) => id)
  return order === 'desc' ? ids.reverse() : ids
}

function isAsked(event: StoredRow, filter: EventFilter): boolean {
  const { status, type, tags, orderingKey, createdFrom, createdTo } = filter
  const isType = () =>
    type === '*'
      ? event.type !== null
      : type?.endsWith('.*')
        ? event.type?.startsWith(type.slice(0, -1))
        : event.type === type
  return (
    (status === undefined || event.status === status) &&
    (type === undefined || isType() === true) &&
    (tags === undefined || tags.some((tag) => event.tags?.includes(tag))) &&
    (orderingKey === undefined || event.orderingKey === orderingKey) &&
    (createdFrom === undefined || event.createdAt >= createdFrom) &&
    (createdTo === undefined || event.createdAt < createdTo)
  )
}

/** What can become of a delivery: its records, and where it is then. */
const fates = [
  { records: ['completed'], place: null },
  { records: ['completed'], place: null },
  { records: ['retried', 'completed'], place: null },
  { records: ['lease_expired', 'retried'], place: 'waiting' },
  { records: [], place: 'waiting' },
  { records: [], place: 'leased' },
  { records: ['retried'], place: 'leased' },
  { records: ['buried'], place: 'letter' },
  { records: ['finalized'], place: 'letter' },
  { records: ['expired'], place: 'letter' },
  { records: ['cancelled'], place: null },
  { records: ['buried', 'redriven', 'completed'], place: null },
  { records: ['buried', 'redriven'], place: 'waiting' },
  { records: ['buried', 'redriven', 'buried'], place: 'letter' },
  { records: ['buried', 'discarded'], place: null },
] as const

/** As publish and settle would leave it: the first half is mostly finished, and some things come up only late. */
async function fill(write: Write): Promise<void> {
  const random = randomNumbers(20_240_101)
  const pick = <T>(items: readonly T[]) => items[Math.floor(random() * items.length)] as T
  for (let n = 1; n <= count; n++) {
    const id = idOf(n)
    const isLate = n > 400
    const owed = pick([[], [1], [1], [1], [2], [1, 2], [1, 2, 3]])
    const type = isLate && random() < 0.3 ? 'late' : pick(['a.x', 'a.x', 'a.y', 'b', null])
    const tags = [
      ...(isLate && random() < 0.4 ? ['late'] : []),
      ...(random() < 0.4 ? [pick(['p', 'q', 'r'])] : []),
    ]
    await write(
      `insert into posthorn.events (id, type, tags, ordering_key, payload, owed, created_at)
      values ($1, $2, $3, $4, $7, $5, $6)`,
      [
        id,
        type,
        tags.length === 0 ? null : tags,
        random() < 0.3 ? 'k' : null,
        owed,
        timeOf(n),
        `{"odd":${n % 2 === 1}}`,
      ],
    )
    if (owed.length === 0 && random() < 0.3) await bury(write, id, null, 'buried', null)
    for (const subscription of owed) {
      const { records, place } = n < 250 && random() < 0.9 ? fates[0] : pick(fates)
      await record(write, id, subscription, records)
      if (place === 'waiting' || place === 'leased') await wait(write, { id, subscription, place, random })
    }
  }
}

type Write = (text: string, values: unknown[]) => Promise<unknown>

async function record(
  write: Write,
  id: number,
  subscription: number,
  records: readonly string[],
): Promise<void> {
  for (const [at, kind] of records.entries()) {
    const settlement = kind === 'finalized' ? 'buried' : kind
    const cause = kind === 'finalized' ? 'finalized' : null
    await write(
      `insert into posthorn.audit (event_id, subscription, settlement, attempt, finished_at, reason, cause)
      values ($1, $2, $3, $4, posthorn.clock(), 'because', $5)`,
      [id, subscription, settlement, at + 1, cause],
    )
    const isLast = at === records.length - 1
    if (isLast && ['buried', 'finalized', 'expired'].includes(kind)) {
      await bury(write, id, subscription, settlement, cause)
    }
  }
}

async function bury(
  write: Write,
  id: number,
  subscription: number | null,
  kind: string,
  cause: 'finalized' | null,
): Promise<void> {
  await write(
    `insert into posthorn.dead_letters (id, event_id, subscription, kind, reason, cause, attempts, failures, event_snapshot, buried_at)
    values (posthorn.uuid_v7(), $1, $2, $3, 'because', $4, 1, 1, '{}', posthorn.clock())`,
    [id, subscription, kind, cause],
  )
}

interface Waiting {
  readonly id: number
  readonly subscription: number
  readonly place: 'waiting' | 'leased'
  readonly random: () => number
}

async function wait(write: Write, { id, subscription, place, random }: Waiting): Promise<void> {
  if (place === 'waiting' && random() < 0.3) {
    await write(
      `insert into posthorn.lane_queue (subscription, ordering_key, position, event_ids) values ($1, $2, $3, array[$3::bigint])`,
      [subscription, `lane ${id}`, id],
    )
    return
  }
  const state = place === 'leased' ? 'leased' : random() < 0.5 ? 'ready' : 'deferred'
  await write(
    `insert into posthorn.runs (subscription, state, event_ids, first_id, begun, token, leased_at, leased_until, due_at)
    values ($1, $2, array[$3::bigint], $3, $4, 1, posthorn.clock(), posthorn.clock(), posthorn.clock())`,
    [subscription, state, id, place === 'leased' ? [id] : null],
  )
}

/** The same numbers every time. */
function randomNumbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}
