import { beforeAll, describe, expect, test } from 'vitest'
import type { Order } from '../../src/core/paging.ts'
import { type Reader, readAtOnce } from '../../src/core/reader.ts'
import type { PostgresDatabase } from '../../src/db/postgres.ts'
import { type EventStatus, eventStatuses } from '../../src/domain/status.ts'
import { gatherMatches, gatherMembers } from '../../src/events/event-gather.ts'
import { type EventFilter, type EventMatch, matchEvents } from '../../src/events/event-match.ts'
import { sizeMatches } from '../../src/events/event-size.ts'
import { membersOf } from '../../src/events/event-sources.ts'
import { choosePath, type Path, walkEvents } from '../../src/events/event-walk.ts'
import type { Driver } from '../../src/events/event-window.ts'
import { listEvents } from '../../src/events/list-events.ts'
import { useEngines } from '../support/engine.ts'

/**
 * A list looks for events in several ways, and which one it takes depends on how many there are. Here each way is
 * taken with each filter, and all must agree with what a look at every event gives.
 */

const openEngine = useEngines('event_walk')
const count = 900
/** Over several thousands of the index on tags. */
const idOf = (n: number) => n * 41
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
  { createdFrom: timeOf(300), createdTo: timeOf(600) },
  { type: 'a.x', tags: ['p'] },
  { type: 'a.*', tags: ['late'] },
  { type: 'a.y', orderingKey: 'k' },
  { tags: ['late'], orderingKey: 'k' },
  { tags: ['p'], createdFrom: timeOf(500), createdTo: timeOf(800) },
  { type: 'a.*', createdTo: timeOf(400) },
  { orderingKey: 'k', createdFrom: timeOf(700) },
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
      const ids: number[] = []
      let cursor: string | null | undefined
      do {
        const page = await listEvents(db, { ...filter, order, limit: 50, ...(cursor && { cursor }) })
        expect([filter, page.total, page.totalIsEstimate]).toEqual([filter, expected.length, false])
        ids.push(...page.events.map(({ id }) => id))
        cursor = page.nextCursor
      } while (cursor !== null)
      expect([filter, ids]).toEqual([filter, expected])
    }
  })

  test('a walk finds them along every index, from the start and from the middle', async () => {
    for (const filter of asked) {
      await reading(filter, async (reader, match, path) => {
        for (const [along, order] of combine(pathsOf(match, path), orders)) {
          for (const after of [null, idOf(450)]) {
            const walk = { path: along, order, after, count: 10_000, examinedMax: 1e9 }
            const { ids, end } = await walkEvents(reader, walk)
            const where = { filter, driver: along.driver, order, after }
            expect([where, ids, end]).toEqual([where, expectedIds(filter, order, after), 'exhausted'])
          }
        }
      })
    }
  })

  test('all are gathered at once, and counted', async () => {
    for (const [filter, order] of combine(asked, orders)) {
      const after = idOf(450)
      const expected = {
        ids: expectedIds(filter, order, after).slice(0, 30),
        total: expectedIds(filter, order).length,
      }
      await reading(filter, async (reader, match) => {
        const gathering = { match, order, after, count: 30 }
        const size = await sizeMatches(reader, match)
        const matching = await gatherMatches(reader, gathering, { size, status, max: 10_000 })
        expect([filter, matching]).toEqual([filter, expected])
        if (status === undefined) return
        const members = await gatherMembers(reader, gathering, {
          ...{ members: membersOf(status), status, eventsMax: 10_000, rowsMax: 10_000 },
        })
        expect([filter, members]).toEqual([filter, expected])
      })
    }
  })
})

test('a walk that gives up tells how far it came, and can be gone on with', async () => {
  await reading({ status: 'PENDING' }, async (reader, _match, path) => {
    const ids: number[] = []
    let after: number | null = null
    for (;;) {
      const step = await walkEvents(reader, { path, order: 'asc', after, count: 10, examinedMax: 100 })
      ids.push(...step.ids)
      after = step.last
      if (step.end === 'exhausted') break
    }
    expect(ids).toEqual(expectedIds({ status: 'PENDING' }, 'asc'))
  })
})

async function reading(
  filter: EventFilter,
  work: (reader: Reader, match: EventMatch, path: Path) => Promise<void>,
): Promise<void> {
  await readAtOnce(db, async (reader) => {
    const match = await matchEvents(reader, filter)
    await work(reader, match, choosePath(match, await sizeMatches(reader, match), filter.status))
  })
}

/** The one that a list would take, and the others. */
function pathsOf({ conditions }: EventMatch, path: Path): Path[] {
  const { status } = path
  const members = status === undefined ? [] : [membersOf(status)]
  const drivers: Driver[] = conditions.filter((one) => one.on === 'types' || one.on === 'orderingKey')
  return [
    path,
    ...[null, ...drivers].map((driver) => ({ ...path, members: null, driver })),
    ...members.map((one) => ({ ...path, members: one, driver: null, statusJump: null })),
  ]
}

function combine<A, B>(first: readonly A[], second: readonly B[]): [A, B][] {
  return first.flatMap((one) => second.map((other): [A, B] => [one, other]))
}

function expectedIds(filter: EventFilter, order: Order, after: number | null = null): number[] {
  const ids = stored.filter((event) => isAsked(event, filter)).map(({ id }) => id)
  if (order === 'desc') ids.reverse()
  return after === null ? ids : ids.filter((id) => (order === 'asc' ? id > after : id < after))
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
    const isLate = n > 750
    const owed = pick([[], [1], [1], [1], [2], [1, 2], [1, 2, 3]])
    const type = isLate && random() < 0.3 ? 'late' : pick(['a.x', 'a.x', 'a.y', 'b', null])
    const tags = [
      ...(isLate && random() < 0.4 ? ['late'] : []),
      ...(random() < 0.4 ? [pick(['p', 'q', 'r'])] : []),
    ]
    await write(
      `insert into posthorn.events (id, type, tags, ordering_key, payload, owed, created_at)
      values ($1, $2, $3, $4, '1', $5, $6)`,
      [id, type, tags.length === 0 ? null : tags, random() < 0.3 ? 'k' : null, owed, timeOf(n)],
    )
    if (owed.length === 0 && random() < 0.3) await bury(write, id, null, 'buried', null)
    for (const subscription of owed) {
      const { records, place } = n < 450 && random() < 0.9 ? fates[0] : pick(fates)
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
