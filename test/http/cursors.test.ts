import { expect, test } from 'vitest'
import { useServers } from '../support/http.ts'
import { Pulling } from './pulling.ts'

const servers = useServers('cursors')
const lists = ['/events', '/deliveries', '/subscribers', '/workers', '/queues', '/queues/work']

test('a cursor is refused with another filter than that of its page', async () => {
  const pulling = new Pulling(await servers.open())
  const { call } = pulling.server
  await pulling.publishMany(3)
  await pulling.publishMany(3, { tags: 'b' })
  for (const [list, filter, others] of [
    [
      '/events',
      'tags=a',
      ['tags=b', 'tags=a&status=PENDING', '', 'tags=a&payload.x=1&created_from=2026-01-01T00:00:00Z'],
    ],
    ['/events', '', ['tags=a']],
    ['/deliveries', 'status=pending', ['status=delivered', '']],
  ] as const) {
    const { next_cursor: cursor } = (await call('GET', `${list}?limit=1&${filter}`)).json
    const next = await call('GET', `${list}?limit=2&${filter}&cursor=${cursor}`)
    expect([next.status, next.json.limit], next.text).toEqual([200, 2])
    for (const other of others) {
      const { status, json } = await call('GET', `${list}?limit=1&${other}&cursor=${cursor}`)
      expect([status, json.option ?? json.field], `${filter} and ${other}`).toEqual([422, 'cursor'])
    }
  }
})

test('a cursor of one queue or subscriber is refused by another one', async () => {
  const pulling = new Pulling(await servers.open())
  const { call } = pulling.server
  const ids = []
  for (const name of ['a', 'b']) {
    ids.push((await call('POST', '/subscribers', { name, via: 'pull', event_types: ['*'] })).json.id)
  }
  for (const key of ['k1', 'k2', 'k3']) await pulling.publish({ type: 't', tags: null, ordering_key: key })
  while (await pulling.server.hub.sweep());
  for (let n = 0; n < 3; n++) await call('POST', '/queues/a/checkpoint')
  for (const [one, other] of [
    [`/subscribers/${ids[0]}/lanes`, `/subscribers/${ids[1]}/lanes`],
    ['/queues/a', '/queues/b'],
    ['/queues/a/checkpoints', '/queues/b/checkpoints'],
  ] as const) {
    const { next_cursor: cursor } = (await call('GET', `${one}?limit=1`)).json
    expect(cursor, one).toEqual(expect.any(String))
    expect((await call('GET', `${one}?limit=1&cursor=${cursor}`)).status, one).toBe(200)
    const { status, json } = await call('GET', `${other}?limit=1&cursor=${cursor}`)
    expect([status, json.option ?? json.field], other).toEqual([422, 'cursor'])
  }
})

test('a cursor of one list is refused by every other one', async () => {
  const pulling = new Pulling(await servers.open())
  const { call } = pulling.server
  await pulling.publishMany(3)
  for (const worker of ['w1', 'w2', 'w3']) await pulling.lease(worker)
  await pulling.publishMany(3)
  for (const name of ['a', 'b', 'c'])
    await call('POST', '/subscribers', { name, via: 'pull', event_types: ['*'] })
  const cursors = new Map<string, string>()
  for (const list of lists) {
    const { json, text } = await call('GET', `${list}?limit=1`)
    expect(json.next_cursor, `${list}: ${text}`).toEqual(expect.any(String))
    cursors.set(list, json.next_cursor)
  }
  for (const [from, cursor] of cursors) {
    for (const list of lists) {
      const { status, json } = await call('GET', `${list}?limit=1&cursor=${cursor}`)
      if (list === from) expect(status, list).toBe(200)
      else expect([status, json.option ?? json.field], `${from} in ${list}`).toEqual([422, 'cursor'])
    }
  }
})
