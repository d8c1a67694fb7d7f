import { describe, expect, test } from 'vitest'
import { PosthornClient } from '../../src/client/index.ts'
import { type TestServer, useServers } from '../support/http.ts'
import type { Json } from './pulling.ts'

/** The lists of what is known by a number: subscribers and workers. */

const servers = useServers('subscriber_list')

interface Listed {
  readonly path: string
  readonly items: string
  readonly name: string
  readonly orderUsual: 'asc' | 'desc'
  /** Makes some, and returns the names of all there are, the oldest first. */
  fill(server: TestServer): Promise<string[]>
}

const lists: Listed[] = [
  {
    ...{ path: '/subscribers', items: 'subscribers', name: 'name', orderUsual: 'asc' },
    async fill(server) {
      const names = ['e', 'd', 'gone', 'c', 'b', 'a']
      for (const name of names) {
        const { status } = await server.call('POST', '/subscribers', {
          name,
          via: 'pull',
          event_types: ['*'],
        })
        expect(status).toBe(201)
      }
      await server.hub.unsubscribe('gone')
      return ['work', ...names.filter((name) => name !== 'gone')]
    },
  },
  {
    ...{ path: '/workers', items: 'workers', name: 'worker_id', orderUsual: 'desc' },
    async fill(server) {
      const { db } = server
      await db.query(
        `insert into ${db.schema}.workers (name, seen_at)
        select name, now() from unnest(array['e', 'd', 'c', 'b', 'a', 'f']) as name
        on conflict (name) do nothing`,
      )
      return ['e', 'd', 'c', 'b', 'a', 'f']
    },
  },
]

/** The hub says now and then that it is here: it is the oldest of the workers. */
const quiet = { hub: { workerId: 'e', dispatcher: false, upkeep: false } }

describe.each(lists)('$path', ({ path, items, name, orderUsual, fill }) => {
  const namesOf = (page: Json) => page[items].map((one: Json) => one[name])

  test('goes page by page, in both directions, with an exact total', async () => {
    const server = await servers.open(quiet)
    const all = await fill(server)
    for (const order of ['', 'order=asc', 'order=desc']) {
      const isUp = (order || `order=${orderUsual}`) === 'order=asc'
      const found: string[] = []
      let next: string | undefined = `${path}?limit=4&${order}`
      while (next !== undefined) {
        const { json, headers } = await server.call('GET', next)
        expect(json).toMatchObject({ total: 6, limit: 4, offset: 0 })
        found.push(...namesOf(json))
        next = headers.get('link')?.match(/^<([^>]+)>; rel="next"$/)?.[1]
        if (next !== undefined) expect(next).toContain(`cursor=${json.next_cursor}`)
        else expect(json).not.toHaveProperty('next_cursor')
      }
      expect(found).toEqual(isUp ? all : [...all].reverse())
    }
  })

  test('goes on where a page ended, whatever was added before it', async () => {
    const server = await servers.open(quiet)
    const all = await fill(server)
    const { json } = await server.call('GET', `${path}?limit=6&order=asc`)
    expect(json).not.toHaveProperty('next_cursor')
    const first = await server.call('GET', `${path}?limit=3&order=desc`)
    await server.call('POST', '/subscribers', { name: 'new', via: 'pull', event_types: ['*'] })
    await server.call('GET', '/events/subscribe?tags=a&worker_id=new')
    const cursor = first.json.next_cursor
    const rest = await server.call('GET', `${path}?limit=1000&order=desc&cursor=${cursor}`)
    expect([...namesOf(first.json), ...namesOf(rest.json)]).toEqual([...all].reverse())
  })

  test('an offset counts from the start, and nothing follows the end', async () => {
    const server = await servers.open(quiet)
    const all = await fill(server)
    const page = await server.call('GET', `${path}?order=asc&limit=2&offset=3`)
    expect(page.json).toMatchObject({ total: 6, limit: 2, offset: 3 })
    expect(namesOf(page.json)).toEqual(all.slice(3, 5))
    const none = await server.call('GET', `${path}?offset=10000`)
    expect(none.json).toEqual({ [items]: [], total: 6, limit: 20, offset: 10_000 })
    expect(none.headers.get('link')).toBeNull()
  })

  test.each([
    ['limit=1001', 'limit'],
    ['limit=0', 'limit'],
    ['offset=10001', 'offset'],
    ['offset=-1', 'offset'],
    ['order=up', 'order'],
    ['cursor=x', 'cursor'],
    [`cursor=${Buffer.from(`${items}:${orderUsual}:1-1`).toString('base64url')}`, 'cursor'],
    [`cursor=${Buffer.from(`${items}:asc:1`).toString('base64url')}&order=desc`, 'order'],
    [`cursor=${Buffer.from(`${items}:asc:1`).toString('base64url')}&order=asc&offset=1`, 'offset'],
    ['since=1', 'since'],
  ])('refuses %s, and names it', async (query, field) => {
    const server = await servers.open(quiet)
    const { status, json } = await server.call('GET', `${path}?${query}`)
    expect(status).toBe(422)
    expect(json.field ?? json.option).toBe(field)
  })
})

test('the client reads all of a list, however long', async () => {
  const server = await servers.open(quiet)
  const { db } = server
  await db.query(
    `insert into ${db.schema}.workers (name, seen_at) select 'w' || n, now() from generate_series(1, 11500) as n`,
  )
  const names = (await new PosthornClient({ url: server.url }).workers()).map(({ workerId }) => workerId)
  const found = new Set(names)
  expect(found.size).toBe(names.length)
  const written = Array.from({ length: 11_500 }, (_, n) => `w${n + 1}`)
  expect(written.filter((name) => !found.has(name))).toEqual([])
})
