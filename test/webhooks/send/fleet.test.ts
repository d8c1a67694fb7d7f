import { expect, test } from 'vitest'
import { type TestServer, useServers } from '../../support/http.ts'
import { allDelivered, openOutage, publishMany, suspended } from './outage.ts'
import { openDispatching, settledTimes, subscribe } from './setup.ts'

const servers = useServers('dispatcher_fleet')

test('two processes share one breaker: three failures in all, one probe at a time', async () => {
  const [server, other] = await openTwo('breaker')
  const outage = await openOutage()
  const { id } = await subscribe(server, outage.url, { max_concurrency: 1 })
  const events = await publishMany(server, 6)
  await suspended(server, id)
  await suspended(other, id)
  expect(outage.attempts).toHaveLength(3)
  for (let probe = 1; probe <= 4; probe++) {
    await server.clock.advance(66_000)
    await Promise.all([server.hub.sweep(), other.hub.sweep()])
    await settledTimes(server, events[0] as number, 1 + probe)
    await Promise.all([server.hub.sweep(), other.hub.sweep()])
    expect(outage.attempts).toHaveLength(3 + probe)
  }
  expect(outage.most).toBe(1)
  outage.answer = (response) => response.writeHead(204).end()
  await server.clock.advance(66_000)
  await allDelivered(server, 6)
})

test('two processes together never exceed a subscriber’s concurrency', async () => {
  const [server] = await openTwo('concurrency')
  const outage = await openOutage()
  outage.answer = (response) => void setImmediate(() => response.writeHead(204).end())
  await subscribe(server, outage.url, { max_concurrency: 3 })
  await publishMany(server, 80)
  await allDelivered(server, 80)
  expect(outage.most).toBeGreaterThan(1)
  expect(outage.most).toBeLessThanOrEqual(3)
  expect(outage.attempts).toHaveLength(80)
})

test('two processes together never exceed a subscriber’s rate', async () => {
  const [server] = await openTwo('rate')
  const outage = await openOutage()
  outage.answer = (response) => response.writeHead(204).end()
  const rate = 20
  await subscribe(server, outage.url, { rate_per_second: rate })
  await publishMany(server, 60)
  await allDelivered(server, 60)
  const { rows } = await server.db.query(
    `select extract(epoch from leased_at)::float as at from ${server.db.schema}.audit order by leased_at`,
  )
  const times = rows.map(({ at }) => Number(at))
  for (const [first, from] of times.entries()) {
    for (const [last, to] of times.entries()) {
      if (last < first) continue
      expect(last - first + 1).toBeLessThanOrEqual(rate + rate * (to - from) + 0.01)
    }
  }
})

/** Two processes on the same tables. */
async function openTwo(schema: string): Promise<[TestServer, TestServer]> {
  return [
    await openDispatching(servers, { hub: { schema, workerId: 'one' } }),
    await openDispatching(servers, { hub: { schema, workerId: 'two' } }),
  ]
}
