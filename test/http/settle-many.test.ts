import { afterEach, expect, test, vi } from 'vitest'
import { useServers } from '../support/http.ts'
import { type Json, Pulling } from './pulling.ts'
import { listenToStatements } from './waiting.ts'

/** POST /events/settle: many outcomes, each answered by itself. */

const servers = useServers('settlemany')
const open = async () => new Pulling(await servers.open())
const retryMs = 300_000
afterEach(() => vi.restoreAllMocks())

test('all outcomes of one call are answered by themselves, in their order', async () => {
  const pulling = await open()
  const { hub } = pulling.server
  const ids = await pulling.publishMany(6)
  const last = await pulling.publish({ max_retries: 1 })
  const leases = await pulling.leaseMany(10)
  expect(leases.map(({ id }) => id)).toEqual([...ids, last])
  const token = (id: number) => leases.find((lease) => lease.id === id)?.lease_token
  const [completed, failed, snoozed, buried, released, permanent] = ids as [
    ...[number, number, number, number, number, number],
  ]
  const outcomes = [
    { event_id: completed, outcome: 'complete', lease_token: token(completed), execution_time_ms: 3 },
    { event_id: 4711, outcome: 'complete', worker_id: 'w' },
    { event_id: failed, outcome: 'fail', error_message: 'no', retry_after_ms: 400_000 },
    { event_id: completed, outcome: 'complete', lease_token: 'nonsense' },
    { event_id: snoozed, outcome: 'snooze', after_ms: 20_000, lease_token: token(snoozed) },
    { event_id: buried, outcome: 'bury', reason: 'not ours', lease_token: token(buried) },
    { event_id: released, outcome: 'release' },
    { event_id: completed, outcome: 'fail', worker_id: 'w' },
    { event_id: permanent, outcome: 'fail', permanent: true, error_message: 'never' },
    { event_id: last, outcome: 'fail', error_message: 'last' },
    { event_id: failed, outcome: 'complete', worker_id: 'somebody else' },
  ]
  const results = await pulling.settle(outcomes, { worker_id: 'w' })
  expect(results.map(({ event_id }) => event_id)).toEqual(outcomes.map(({ event_id }) => event_id))
  expect(results).toMatchObject([
    { status: 200 },
    { status: 404, code: 'not_found' },
    { status: 200, action: 'FAILED', retry_scheduled: true, retry_count: 1, error_message: 'no' },
    { status: 422, code: 'bad_field', field: 'lease_token' },
    { status: 200, action: 'SNOOZED' },
    { status: 200, action: 'FAILED', error_message: 'not ours' },
    { status: 200, action: 'RELEASED' },
    { status: 409, code: 'lease_lost', event_status: 'COMPLETED' },
    { status: 200, action: 'FAILED', retry_scheduled: false, next_retry_at: null },
    { status: 400, code: 'max_retries_exceeded', retry_count: 1, max_retries: 1 },
    { status: 409, code: 'lease_lost', state: 'waiting in work' },
  ])
  const events = await Promise.all([...ids, last].map((id) => pulling.event(id)))
  expect(events.map(({ status, retry_count }) => [status, retry_count])).toEqual([
    ...[
      ['COMPLETED', 0],
      ['PENDING', 1],
      ['PENDING', 0],
      ['FAILED', 0],
      ['PENDING', 0],
      ['FAILED', 1],
    ],
    ['FAILED', 1],
  ])
  const { deadLetters } = await hub.deadLetters()
  expect(deadLetters.map(({ eventId, reason }) => [eventId, reason]).sort()).toEqual([
    ...[
      [buried, 'not ours'],
      [permanent, 'never'],
      [last, 'last'],
    ],
  ])
  expect((await pulling.leaseMany(10)).map(({ id }) => id)).toEqual([released])
  await pulling.server.clock.advance(20_000)
  const [again] = await pulling.leaseMany(10)
  expect(again).toMatchObject({ id: snoozed, retry_count: 0 })
  await pulling.server.clock.advance(380_000)
  expect((await pulling.leaseMany(10)).map(({ id }) => id)).toContain(failed)
})

const repeats = [
  { outcome: 'complete' },
  { outcome: 'fail', error_message: 'no' },
  { outcome: 'fail', permanent: true },
  { outcome: 'snooze', after_ms: 1000 },
  { outcome: 'bury', reason: 'no' },
  { outcome: 'release' },
]

test('a repeat within the call and a repeat of the call give the first answer and write nothing', async () => {
  const pulling = await open()
  const ids = await pulling.publishMany(repeats.length * 2)
  const leases = await pulling.leaseMany(repeats.length * 2)
  const outcomes = leases.flatMap(({ id, lease_token }, place) => {
    const claim = place % 2 === 0 ? { lease_token } : { worker_id: 'w' }
    const one = { event_id: id, ...claim, ...repeats[Math.floor(place / 2)] }
    return [one, one]
  })
  const results = await pulling.settle(outcomes)
  expect(results.map(({ status }) => status)).toEqual(outcomes.map(() => 200))
  const before = await Promise.all(ids.map((id) => pulling.event(id)))
  for (const { logs } of before) expect(logs).toHaveLength(2)
  const again = await pulling.settle(outcomes)
  const first = results.filter((_, place) => place % 2 === 0)
  for (const said of [results, again]) expect(said).toEqual(first.flatMap((result) => [result, result]))
  expect(await Promise.all(ids.map((id) => pulling.event(id)))).toEqual(before)
})

test('of two outcomes of one attempt the one that is said first counts', async () => {
  const pulling = await open()
  const rows = repeats.flatMap((first) =>
    repeats.filter(({ outcome }) => outcome !== first.outcome).map((second) => [first, second] as const),
  )
  const ids = await pulling.publishMany(rows.length * 2)
  const leases = await pulling.leaseMany(rows.length * 2)
  const outcomes = leases.flatMap(({ id, lease_token }, place) => {
    const claim = place % 2 === 0 ? { lease_token } : { worker_id: 'w' }
    const [first, second] = rows[Math.floor(place / 2)] as (typeof rows)[number]
    return [
      { event_id: id, ...claim, ...first },
      { event_id: id, ...claim, ...second },
    ]
  })
  const results = await pulling.settle(outcomes)
  const actions = {
    complete: 'COMPLETED',
    fail: 'FAILED',
    snooze: 'SNOOZED',
    bury: 'FAILED',
    release: 'RELEASED',
  }
  for (const [place, id] of ids.entries()) {
    const [first, second] = outcomes.slice(place * 2, place * 2 + 2) as Json[]
    const said = `${first.outcome} ${first.permanent ?? ''}, then ${second.outcome}`
    expect(results[place * 2].status, said).toBe(200)
    expect(await pulling.actions(id), said).toEqual([
      'PICKED',
      actions[first.outcome as keyof typeof actions],
    ])
    // A failure can be a burial, so one that was buried has also failed.
    if (actions[first.outcome as 'fail'] === actions[second.outcome as 'fail']) continue
    expect(results[place * 2 + 1], said).toMatchObject({ status: 409, code: 'lease_lost' })
  }
})

test('a thousand outcomes in one call', async () => {
  const pulling = await open()
  const ids = await pulling.publishMany(1000)
  const leases = await pulling.leaseMany(1000)
  expect(leases.map(({ id }) => id)).toEqual(ids)
  const kinds = ['complete', 'fail', 'snooze', 'bury', 'release'] as const
  const outcomes = leases.map(({ id, lease_token }, place) => ({
    ...{ event_id: id, outcome: kinds[place % 5], execution_time_ms: place, after_ms: 1_000_000 },
    ...(place % 2 === 0 ? { lease_token } : { worker_id: 'w' }),
  }))
  const results = await pulling.settle(outcomes)
  expect(results.map(({ event_id, status }) => [event_id, status])).toEqual(ids.map((id) => [id, 200]))
  const again = await pulling.settle(outcomes)
  expect(again.map(({ event_id, status }) => [event_id, status])).toEqual(ids.map((id) => [id, 200]))
  const total = async (status: string) => {
    return (await pulling.server.call('GET', `/events?status=${status}`)).json.total
  }
  expect([await total('COMPLETED'), await total('PENDING'), await total('FAILED')]).toEqual([200, 600, 200])
  expect(await pulling.leaseMany(1000)).toHaveLength(200)
  await pulling.server.clock.advance(retryMs)
  // Those that were leased a moment ago have expired too.
  expect(await pulling.server.call('GET', '/events?status=PENDING')).toMatchObject({ json: { total: 600 } })
})

test('a thousand outcomes of nothing are answered too, by a handful of statements', async () => {
  const pulling = await open()
  const [id] = (await pulling.publishMany(1)) as [number]
  await pulling.lease()
  const outcomes = Array.from({ length: 1000 }, (_, place) => ({
    event_id: place % 2 === 0 ? id : 1000 + place,
    ...{ outcome: place % 3 === 0 ? 'complete' : 'fail', worker_id: `somebody-${place}` },
  }))
  const statements = listenToStatements()
  const results = await pulling.settle(outcomes)
  expect(results.map(({ status }) => status)).toEqual(
    outcomes.map((_, place) => (place % 2 === 0 ? 409 : 404)),
  )
  expect(statements.names.filter((name) => !/^(begin|commit)/.test(name)).length).toBeLessThan(10)
})

const bad = [
  [{}, 'outcomes'],
  [{ outcomes: [] }, 'outcomes'],
  [{ outcomes: Array.from({ length: 1001 }, () => ({ event_id: 1, outcome: 'complete' })) }, 'outcomes'],
  [{ outcomes: [{ outcome: 'complete' }] }, 'outcomes[0].event_id'],
  [{ outcomes: [{ event_id: 1 }] }, 'outcomes[0].outcome'],
  [{ outcomes: [{ event_id: 1, outcome: 'done' }] }, 'outcomes[0].outcome'],
  [{ outcomes: [{ event_id: 1, outcome: 'snooze', after_ms: -1 }] }, 'outcomes[0].after_ms'],
  [{ outcomes: [{ event_id: '1', outcome: 'complete' }] }, 'outcomes[0].event_id'],
  [{ outcomes: [{ event_id: 1, outcome: 'complete', result: 1 }] }, 'outcomes[0].result'],
  [{ outcomes: [{ event_id: 1, outcome: 'complete' }], worker: 'w' }, 'worker'],
] as const
test('what is no list of outcomes is refused as a whole, by its field', async () => {
  const pulling = await open()
  for (const [body, field] of bad) {
    const { status, json, text } = await pulling.server.call('POST', '/events/settle', body)
    expect(status, text).toBe(422)
    expect(json).toMatchObject({ code: 'bad_field', field })
  }
})

test.each(['the lease expired', 'lease expired', 'finalized with errors: mine', 'no_handler'])(
  'a burial for the reason "%s" is a burial like any other',
  async (reason) => {
    const pulling = await open()
    const id = await pulling.publish()
    const [lease] = await pulling.leaseMany(1)
    const outcome = { event_id: id, outcome: 'bury', reason, lease_token: lease?.lease_token }
    const first = await pulling.settle([outcome], { worker_id: 'w' })
    expect(first).toMatchObject([{ status: 200, action: 'FAILED', error_message: reason }])
    expect(await pulling.settle([outcome], { worker_id: 'w' })).toEqual(first)
    expect((await pulling.event(id)).status).toBe('FAILED')
    const { hub } = pulling.server
    expect((await hub.listEvents({ status: 'FAILED' })).total).toBe(1)
    expect((await hub.listEvents({ status: 'COMPLETED_WITH_ERRORS' })).total).toBe(0)
  },
)
