import { expect, test } from 'vitest'
import { reportEndpoints } from '../../../src/webhooks/send/breaker.ts'
import { useServers } from '../../support/http.ts'
import { openDispatching, openInbox, publish, secretKey, subscribe, until } from './setup.ts'

const servers = useServers('dispatcher_changes')
const otherKey = Buffer.alloc(32, 9).toString('base64')

test('a limit that is set while deliveries are held counts for those too', async () => {
  const server = await openDispatching(servers)
  let underWay = 0
  let most = 0
  let alone = 0
  let isLimited = false
  const inbox = await openInbox((_, response) => {
    underWay++
    alone = underWay === 1 ? alone + 1 : 0
    if (isLimited) most = Math.max(most, underWay)
    setTimeout(() => {
      underWay--
      response.writeHead(204).end()
    }, 100)
    return undefined
  })
  const { id } = await subscribe(server, inbox.url, { is_active: false })
  await server.hub.publishMany(Array.from({ length: 300 }, () => ({ type: 'note.made', payload: 1 })))
  await server.call('POST', `/subscribers/${id}/resume`)
  await inbox.count(5)
  await server.call('PATCH', `/subscribers/${id}`, { max_concurrency: 1 })
  // Between two waves nothing is under way either: three in a row that come alone tell that the limit was heard of.
  await until(() => alone >= 3, 'the limit to be heard of')
  isLimited = true
  await inbox.count(inbox.all.length + 10)
  expect(most).toBe(1)
})

test('what waits for a slot, or for its predecessor, when it is cancelled is not sent', async () => {
  const server = await openDispatching(servers)
  const open: (() => void)[] = []
  let isOver = false
  const inbox = await openInbox((_, response) => {
    if (isOver) return 204
    open.push(() => void response.writeHead(204).end())
    return undefined
  })
  await subscribe(server, inbox.url, { is_active: true, timeout_ms: 60_000 })
  const lane = await server.hub.publishMany(
    [0, 1, 2].map((payload) => ({ type: 'invoice.made', payload, orderingKey: 'k' })),
  )
  await inbox.count(1)
  const loose = await server.hub.publishMany(
    Array.from({ length: 12 }, (_, payload) => ({ type: 'note.made', payload })),
  )
  await inbox.count(10)
  const cancelled = [lane[1]?.id, loose[11]?.id] as number[]
  expect(await server.hub.cancel(cancelled)).toMatchObject([{ told: true }, { told: true }])
  const isCancelled = async (id: number | undefined) =>
    (await server.hub.event(id as number))?.progress.status === 'CANCELLED'
  await until(() => isCancelled(loose[11]?.id), 'the process to hear of it')
  isOver = true
  for (const answer of open) answer()
  await inbox.count(13)
  await until(() => isCancelled(lane[1]?.id), 'the lane to go on')
  await server.drain()
  const sent = inbox.all.map(({ headers }) => Number(headers['posthorn-event-id']))
  const owed = [...lane, ...loose].map(({ id }) => id).filter((id) => !cancelled.includes(id))
  expect(sent.sort((a, b) => a - b)).toEqual(owed)
})

test('a rate that is set while the ramp ends is kept', async () => {
  const server = await openDispatching(servers, { hub: { dispatcher: false } })
  const inbox = await openInbox()
  const { id } = await subscribe(server, inbox.url)
  const { no } = await server.hub.subscribers.get(id)
  const { db } = server
  await db.query(`update ${db.schema}.subscriptions set ramp = 50 where no = $1`, [no])
  await db.query(`insert into ${db.schema}.limits values ($1, 1, now())`, [no])
  const report = {
    subscription: no,
    reached: 1,
    unreachable: 0,
    probes: 0,
    isGone: false,
    error: null,
    ageMs: 0,
  }
  await Promise.all([
    server.call('PATCH', `/subscribers/${id}`, { rate_per_second: 5 }),
    reportEndpoints(db, [report]),
  ])
  const { rows } = await db.query<{ ramp: number | null; kept: number }>(
    `select s.ramp, (select count(*)::int from ${db.schema}.limits l where l.subscription = s.no) as kept
    from ${db.schema}.subscriptions s where s.no = $1`,
    [no],
  )
  expect(rows).toEqual([{ ramp: null, kept: 1 }])
})

test('changing and reporting at once do not wait for each other in a circle', async () => {
  const server = await openDispatching(servers, { hub: { dispatcher: false } })
  const inbox = await openInbox()
  const { id } = await subscribe(server, inbox.url)
  const { no } = await server.hub.subscribers.get(id)
  const report = {
    subscription: no,
    reached: 0,
    unreachable: 1,
    probes: 0,
    isGone: false,
    error: 'x',
    ageMs: 0,
  }
  const deadlocks = async () => {
    const { rows } = await server.db.query<{ n: number }>(
      'select deadlocks::int as n from pg_stat_database where datname = current_database()',
    )
    return rows[0]?.n
  }
  const before = await deadlocks()
  await Promise.all(
    Array.from({ length: 40 }, (_, n) =>
      n % 2 === 0
        ? server.call('POST', `/subscribers/${id}/${n % 4 === 0 ? 'pause' : 'resume'}`)
        : reportEndpoints(server.db, [report]),
    ),
  )
  expect(await deadlocks()).toBe(before)
})

test('a process with another key may not seal beside what it cannot open', async () => {
  const server = await openDispatching(servers)
  const inbox = await openInbox()
  await subscribe(server, inbox.url)
  const schema = server.db.schema.replaceAll('"', '')
  const hub = { schema, secretKey: otherKey, dispatcher: false }
  await expect(servers.open({ hub })).rejects.toMatchObject({ code: 'SECRET_KEY_WRONG' })
})

test('what this process cannot sign waits for one that can, and costs nothing meanwhile', async () => {
  const server = await openDispatching(servers)
  const inbox = await openInbox()
  const { id } = await subscribe(server, inbox.url)
  await subscribe(server, inbox.url, { event_types: ['other'] })
  const { no } = await server.hub.subscribers.get(id)
  const { db } = server
  await db.query(
    `update ${db.schema}.endpoint_secrets set sealed = 'v1.00000000.AAAA' where subscription = $1`,
    [no],
  )
  await server.call('PATCH', `/subscribers/${id}`, { timeout_ms: 5_000 })
  const keyless = await servers.open({
    hub: { schema: db.schema.replaceAll('"', ''), secretKey, allowCidrs: '127.0.0.0/8', migrate: false },
  })
  await server.hub.stop()
  await publish(keyless)
  await keyless.clock.advance(6_000)
  const { rows } = await db.query(`select 1 from ${db.schema}.audit`)
  expect([rows.length, inbox.all.length]).toEqual([0, 0])
})

test('a dead letter that is sent again keeps its number and its lane, whatever orders the later ones', async () => {
  const server = await openDispatching(servers)
  let fails = true
  const inbox = await openInbox(() => (fails ? 404 : 204))
  const { id } = await subscribe(server, inbox.url, { ordering_key: '/payload/a' })
  await publish(server, { payload: { a: 'A', b: 'B' } })
  await until(async () => (await server.hub.deadLetters()).total === 1)
  await server.call('PATCH', `/subscribers/${id}`, { ordering_key: '/payload/b' })
  fails = false
  const [letter] = (await server.hub.deadLetters()).deadLetters
  await server.call('POST', `/dlq/${letter?.id}/retry`)
  const [, again] = await inbox.count(2)
  expect(again?.headers).toMatchObject({ 'posthorn-ordering-key': 'A', 'posthorn-sequence': '1' })
})
