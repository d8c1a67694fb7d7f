import { expect, test } from 'vitest'
import { useServers } from '../../support/http.ts'
import { httpReceiver } from './receiver.ts'
import { openDispatching, openInbox, publish, settledTimes, subscribe } from './setup.ts'

const servers = useServers('dispatcher_retry_after')

const date = 'Mon, 16 Nov 2026 10:00:00 GMT'
const day = 86_400

/** What it says, and how long it is waited at least and at most. */
const rows: Record<string, [retryAfter: string, leastSeconds: number, mostSeconds: number]> = {
  seconds: ['7', 7, 7],
  'a fraction': ['7.5', 7.5, 7.5],
  'a date': ['Mon, 16 Nov 2026 10:01:00 GMT', 60, 60],
  'a date of the old form': ['Monday, 16-Nov-26 10:01:00 GMT', 60, 60],
  'a date that is over': ['Mon, 16 Nov 2026 09:00:00 GMT', 5, 5.5],
  'more than a day': ['90000', day, day],
  'more digits than a number has': ['9'.repeat(400), day, day],
  'a date next year': ['Tue, 16 Nov 2027 10:00:00 GMT', day, day],
  'less than the schedule': ['2', 5, 5.5],
  nothing: ['', 5, 5.5],
  zero: ['0', 5, 5.5],
  negative: ['-60', 5, 5.5],
  words: ['in a while', 5, 5.5],
  'a list': ['60, 70', 5, 5.5],
  hexadecimal: ['0x1000', 5, 5.5],
}

test('Retry-After can only make the next attempt later, and by a day at most', async () => {
  const server = await openDispatching(servers)
  const given = Object.values(rows).map(([retryAfter]) => retryAfter)
  const receiver = await httpReceiver((request, response) => {
    const place = Number(request.url?.slice(1))
    response.writeHead(place % 2 === 0 ? 503 : 429, { date, 'retry-after': given[place] as string }).end()
  })
  const ids: number[] = []
  for (const place of given.keys()) {
    const url = `http://127.0.0.1:${receiver.port}/${place}`
    await subscribe(server, url, { event_types: [`t.${place}`] })
    ids.push(await publish(server, { type: `t.${place}` }))
  }
  for (const [place, [name, [, least, most]]] of Object.entries(rows).entries()) {
    const [first] = await settledTimes(server, ids[place] as number, 1)
    expect({ name, ...first }).toMatchObject({ name, settlement: 'retried', failures: 1 })
    expect(first?.waitSeconds, name).toBeGreaterThanOrEqual(least)
    expect(first?.waitSeconds, name).toBeLessThanOrEqual(most + 0.001)
  }
})

test('a delivery that was asked for patience is not sent before its time', async () => {
  const server = await openDispatching(servers)
  let answered = 0
  const inbox = await openInbox((_, response) => {
    if (++answered > 1) return 204
    response.writeHead(503, { 'retry-after': '600' }).end()
    return undefined
  })
  await subscribe(server, inbox.url)
  const id = await publish(server)
  await settledTimes(server, id, 1)
  await server.clock.advance(590_000)
  await server.drain()
  expect(inbox.all).toHaveLength(1)
  await server.clock.advance(10_001)
  await inbox.count(2)
  expect((await settledTimes(server, id, 2)).at(-1)).toMatchObject({ settlement: 'completed' })
})
