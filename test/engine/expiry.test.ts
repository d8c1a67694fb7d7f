import { describe, expect, test } from 'vitest'
import { useServers } from '../support/http.ts'
import { useHubs } from '../support/hub.ts'
import { leaseRuns, settleRuns } from '../support/pulling.ts'

const hubs = useHubs('expiry')
const servers = useServers('expiry_servers')
const inSeconds = (seconds: number) => new Date(Date.now() + seconds * 1000)

/** A pull queue, and what a worker that asks for so many is given, by payload. */
async function openQueue() {
  const { hub, clock } = await hubs.open()
  await hub.subscribe('t', { name: 'q' })
  return {
    ...{ hub, clock },
    publish: async (...events: { payload: string | number; orderingKey?: string; expiresAt?: Date }[]) => {
      for (const event of events) await hub.publish({ type: 't', ...event })
    },
    lease: async (limit: number) => {
      const runs = await leaseRuns(hub, 'q', { limit })
      return runs.flatMap((run) => run.deliveries.map(({ event }) => event.payload))
    },
  }
}

describe('what expires within a minute', () => {
  test('comes first, and takes at most half of a claim', async () => {
    const { publish, lease } = await openQueue()
    for (let n = 0; n < 6; n++) await publish({ payload: `old ${n}` })
    for (let n = 0; n < 6; n++) await publish({ payload: `short ${n}`, expiresAt: inSeconds(50 - n) })
    expect((await lease(4)).sort()).toEqual(['old 0', 'old 1', 'short 4', 'short 5'])
    expect((await lease(6)).sort()).toEqual(['old 2', 'old 3', 'old 4', 'short 1', 'short 2', 'short 3'])
    expect((await lease(6)).sort()).toEqual(['old 5', 'short 0'])
  })

  test('takes at most half of a claim also where many were published together', async () => {
    const { hub, publish, lease } = await openQueue()
    for (let n = 0; n < 5; n++) await publish({ payload: `old ${n}` })
    const expiresAt = inSeconds(50)
    await hub.publishMany([1, 2, 3, 4, 5, 6, 7, 8].map((payload) => ({ type: 't', payload, expiresAt })))
    expect((await lease(6)).sort()).toEqual([1, 2, 3, 'old 0', 'old 1', 'old 2'])
  })

  test('does not keep the oldest from ever being leased where each claim is of one', async () => {
    const { publish, lease } = await openQueue()
    await publish({ payload: 'old' })
    const leased: unknown[] = []
    // Each claim takes the oldest by a chance of one half.
    for (let n = 0; n < 64 && !leased.includes('old'); n++) {
      await publish({ payload: n, expiresAt: inSeconds(50) })
      leased.push(...(await lease(1)))
    }
    expect(leased).toContain('old')
  })

  test('does not wait for all that is older where each claim is of one', async () => {
    const { hub, publish, lease } = await openQueue()
    await hub.publishMany(Array.from({ length: 64 }, (_, payload) => ({ type: 't', payload })))
    await publish({ payload: 'short', expiresAt: inSeconds(50) })
    const leased: unknown[] = []
    for (let n = 0; n < 64 && !leased.includes('short'); n++) leased.push(...(await lease(1)))
    expect(leased).toContain('short')
  })

  test('fills a claim that nothing else would fill', async () => {
    const { publish, lease } = await openQueue()
    for (let n = 0; n < 4; n++) await publish({ payload: n, expiresAt: inSeconds(50) })
    expect((await lease(4)).sort()).toEqual([0, 1, 2, 3])
  })

  test('is told by the clock: what has longer to live waits its turn until then', async () => {
    const { publish, lease, clock } = await openQueue()
    for (let n = 0; n < 4; n++) await publish({ payload: `old ${n}` })
    await publish({ payload: 'long', expiresAt: inSeconds(100) })
    expect((await lease(2)).sort()).toEqual(['old 0', 'old 1'])
    await clock.advance(41_000)
    expect((await lease(2)).sort()).toEqual(['long', 'old 2'])
  })

  test('does not overtake in its lane, and is urgent once it is the first of it', async () => {
    const { publish, lease, hub } = await openQueue()
    const lane = { orderingKey: 'k' }
    await publish({ payload: 'old' }, { ...lane, payload: 'first' })
    await publish({ ...lane, payload: 'short', expiresAt: inSeconds(50) }, { ...lane, payload: 'third' })
    expect(await lease(1)).toEqual(['old'])
    const [first] = await leaseRuns(hub, 'q')
    expect(first?.deliveries[0]?.event.payload).toBe('first')
    expect(await lease(10)).toEqual([])
    await settleRuns(hub, [first as never], { kind: 'succeeded' })
    expect(await lease(10)).toEqual(['short'])
    expect(await lease(10)).toEqual([])
  })
})

describe('what has expired', () => {
  test('is ended on time also behind the head of a lane that a pull worker has leased', async () => {
    const { hub, clock } = await openQueue()
    const keyed = { type: 't', orderingKey: 'k', expiresAt: inSeconds(100) }
    const published = await hub.publishMany([1, 2, 3].map((payload) => ({ ...keyed, payload })))
    const last = await hub.publish({ type: 't', orderingKey: 'k', payload: 4 })
    const head = await leaseRuns(hub, 'q', { limit: 10, leaseMs: 600_000 })
    expect(head[0]?.deliveries.map(({ event }) => event.id)).toEqual([published[0]?.id])
    await clock.advance(101_000)
    const statuses = async () =>
      Promise.all([...published, last].map(async ({ id }) => (await hub.event(id))?.progress.status))
    expect(await statuses()).toEqual(['PROCESSING', 'EXPIRED', 'EXPIRED', 'PENDING'])
    await settleRuns(hub, head, { kind: 'succeeded' })
    const next = await leaseRuns(hub, 'q', { limit: 10 })
    expect(next[0]?.deliveries.map(({ event }) => event.id)).toEqual([last.id])
    expect(await statuses()).toEqual(['COMPLETED', 'EXPIRED', 'EXPIRED', 'PROCESSING'])
  })

  test.each(['paused', 'active'])('is ended, listed and told in a queue that is %s', async (status) => {
    const server = await servers.open()
    const { hub, clock } = server
    const { json: subscriber } = await server.call('POST', '/subscribers', {
      ...{ name: 'held', via: 'pull', event_types: ['t'] },
    })
    await hub.subscribe('posthorn.delivery.expired', { name: 'ops' })
    if (status === 'paused') {
      expect((await server.call('POST', `/subscribers/${subscriber.id}/pause`)).status).toBe(200)
    }
    const expiresAt = inSeconds(100)
    const keyed = { type: 't', payload: 1, orderingKey: 'k' }
    const [alone, head, behind, last] = await hub.publishMany([
      { type: 't', payload: 1, expiresAt },
      { ...keyed, expiresAt },
      { ...keyed, expiresAt: inSeconds(200) },
      keyed,
    ])
    await clock.advance(101_000)
    const letters = async () =>
      (await server.call('GET', '/dlq?kind=expired')).json.dead_letters.map(
        (one: { event_id: number }) => one.event_id,
      )
    expect((await letters()).sort()).toEqual([alone?.id, head?.id])
    await clock.advance(100_000)
    expect((await letters()).sort()).toEqual([alone?.id, head?.id, behind?.id])
    const statusOf = async (id: number | undefined) => (await hub.event(id as number))?.progress.status
    expect(await statusOf(behind?.id)).toBe('EXPIRED')
    expect(await statusOf(last?.id)).toBe('PENDING')
    await expect.poll(async () => (await hub.listEvents({ type: 'posthorn.delivery.expired' })).total).toBe(3)
    if (status === 'paused') await server.call('POST', `/subscribers/${subscriber.id}/resume`)
    // Its lane goes on.
    const next = await leaseRuns(hub, 'held')
    expect(next[0]?.deliveries[0]?.event.id).toBe(last?.id)
  })
})
