import type { ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { type TestServer, useServers } from '../../support/http.ts'
import {
  allDelivered,
  completed,
  nothingUnderWay,
  type Outage,
  openOutage,
  publishMany,
  suspended,
} from './outage.ts'
import { openDispatching, publish, subscribe, until } from './setup.ts'

const servers = useServers('dispatcher_recovery')

test('an endpoint that is back gets one request at once, then two, four, eight', async () => {
  const server = await openDispatching(servers)
  const outage = await openOutage()
  const { id } = await subscribe(server, outage.url, { max_concurrency: 20 })
  await publishMany(server, 40)
  await suspended(server, id)
  const held: ServerResponse[] = []
  outage.answer = (response) => void held.push(response)
  await server.clock.advance(5_600)
  await until(() => held.length === 1, 'the probe')
  expect((await server.call('GET', `/subscribers/${id}`)).json.endpoint.state).toBe('suspended')
  const seen: number[] = []
  const rounds: [size: number, next: number][] = [
    [1, 1],
    [1, 2],
    [2, 4],
    [4, 8],
    [8, 16],
  ]
  for (const [size, next] of rounds) {
    await until(() => held.length >= size, `${size} at once`)
    seen.push(held.length)
    for (const response of held.splice(0)) response.writeHead(204).end()
    await until(async () => {
      const { status, endpoint } = (await server.call('GET', `/subscribers/${id}`)).json
      return status === 'active' && endpoint.concurrency === next
    }, `room for ${next}`)
  }
  expect(seen).toEqual([1, 1, 2, 4, 8])
  expect((await server.call('GET', `/subscribers/${id}`)).json.endpoint.state).toBe('recovering')
  outage.answer = (response) => response.writeHead(204).end()
  for (const response of held.splice(0)) response.writeHead(204).end()
  await server.drain()
  await until(
    async () => (await server.call('GET', `/subscribers/${id}`)).json.endpoint.state === 'open',
    'the end of the recovery',
  )
})

test('an endpoint that is lost again while it recovers is suspended again', async () => {
  const server = await openDispatching(servers)
  const outage = await openOutage()
  const { id } = await subscribe(server, outage.url)
  await publishMany(server, 10)
  await suspended(server, id)
  outage.answer = (response) => {
    outage.answer = null
    response.writeHead(204).end()
  }
  const before = outage.attempts.length
  await server.clock.advance(5_600)
  await outage.count(before + 4)
  await suspended(server, id)
  outage.answer = (response) => response.writeHead(204).end()
  await server.clock.advance(5_600)
  await allDelivered(server, 10)
  expect(await deadLetters(server)).toBe(0)
})

test('one event outlasts an outage that is longer than its schedule', async () => {
  const server = await openDispatching(servers)
  const outage = await openOutage()
  await subscribe(server, outage.url)
  const event = await publish(server)
  await outage.count(1)
  await nothingUnderWay(server)
  for (let minute = 0; minute < 12; minute++) {
    const before = outage.attempts.length
    await server.clock.advance(66_000)
    await outage.count(before + 1)
    await nothingUnderWay(server)
  }
  expect((await server.call('GET', `/events/${event}`)).json).toMatchObject({
    status: 'PENDING',
    retry_count: 0,
  })
  outage.answer = (response) => response.writeHead(204).end()
  await server.clock.advance(66_000)
  await completed(server, event)
  expect(await deadLetters(server)).toBe(0)
})

test('300 events outlast an outage, and come in order per key and no faster than the ramp allows', async () => {
  const server = await openDispatching(servers)
  const outage = await openOutage()
  const { id } = await subscribe(server, outage.url)
  const events = Array.from({ length: 300 }, (_, n) => ({
    ...{ type: 'note.made', payload: { n } },
    ...(n % 3 > 0 && { ordering_key: `k${n % 7}` }),
  }))
  expect((await server.call('POST', '/events/batch', { events })).status).toBe(201)
  await suspended(server, id)
  for (let minute = 0; minute < 8; minute++) {
    const before = outage.attempts.length
    await server.clock.advance(66_000)
    await outage.count(before + 1)
    await nothingUnderWay(server)
  }
  expect((await server.call('GET', `/subscribers/${id}`)).json.status).toBe('suspended')
  expect(await deadLetters(server)).toBe(0)

  const excess = watchRamp(outage)
  const duringOutage = outage.attempts.length
  await server.clock.advance(66_000)
  await allDelivered(server, 300)
  expect(excess).toEqual([])
  expect(await deadLetters(server)).toBe(0)
  const delivered = outage.attempts.slice(duringOutage).map(Number)
  expect(delivered).toHaveLength(300)
  const keyOf = (event: number) => (events[event - 1] as { ordering_key?: string }).ordering_key
  for (const key of ['k0', 'k1', 'k2', 'k3', 'k4', 'k5', 'k6']) {
    const lane = delivered.filter((event) => keyOf(event) === key)
    expect(lane, key).toEqual([...lane].sort((a, b) => a - b))
  }
})

/** Answers from now on, and notes whenever more came at once than answers had been given for. */
function watchRamp(outage: Outage): string[] {
  const excess: string[] = []
  let underWay = 0
  let answered = 0
  outage.answer = (response) => {
    underWay++
    // The probe is the first; every answer after it makes room for one more.
    const room = Math.max(1, answered)
    if (underWay > room) excess.push(`${underWay} at once after ${answered} answers`)
    setImmediate(() => {
      underWay--
      answered++
      response.writeHead(204).end()
    })
  }
  return excess
}

async function deadLetters(server: TestServer): Promise<number> {
  const { rows } = await server.db.query(
    `select count(*)::int as buried from ${server.db.schema}.dead_letters`,
  )
  return rows[0]?.buried as number
}
