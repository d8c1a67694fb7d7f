import { describe, expect, test } from 'vitest'
import { useServers } from '../support/http.ts'
import { claimOf, claims, isTime, type Lease, Pulling } from './pulling.ts'

/** What a worker says while it has a lease: that it has begun, that it lives; and what it learns from the answers. */

const servers = useServers('leases')
const open = async () => new Pulling(await servers.open())
const leaseMs = 60_000

describe.each(claims)('by %s', (by) => {
  test('to start twice is to start once', async () => {
    const pulling = await open()
    const id = await pulling.publish()
    const claim = claimOf(by, await pulling.lease())
    const first = await pulling.say('start', id, claim)
    expect(first.status).toBe(200)
    expect(first.json).toEqual({
      ...{ id: expect.any(Number), event_id: id, worker_id: 'w', action: 'STARTED', created_at: isTime },
    })
    await pulling.server.clock.advance(5_000)
    expect((await pulling.say('start', id, claim)).json).toEqual(first.json)
    expect(await pulling.actions(id)).toEqual(['PICKED', 'STARTED'])
    await pulling.say('complete', id, claim)
    expect(await pulling.say('start', id, claim)).toMatchObject({ status: 409, json: { code: 'lease_lost' } })
    expect(await pulling.actions(id)).toEqual(['PICKED', 'STARTED', 'COMPLETED'])
  })

  test('a heartbeat renews the lease from now, and never shortens it', async () => {
    const pulling = await open()
    const { clock } = pulling.server
    const id = await pulling.publish()
    const lease = await pulling.lease()
    const beat = async (body: object = {}) => {
      const { status, json, text } = await pulling.say('heartbeat', id, { ...claimOf(by, lease), ...body })
      expect(status, text).toBe(200)
      const { lease_token } = lease
      expect(json).toMatchObject({ event_id: id, worker_id: 'w', lease_token, cancelled: false })
      expect(json.cancelled_event_ids).toEqual([])
      const { leased_until } = (await pulling.event(id)).deliveries[0]
      expect(json.lease_expires_at).toBe(leased_until)
      return Date.parse(json.lease_expires_at)
    }
    const first = Date.parse(lease.lease_expires_at)
    await clock.advance(50_000)
    const second = await beat()
    expect(second - first).toBeGreaterThanOrEqual(50_000)
    expect(second - first).toBeLessThan(60_000)
    expect(await beat({ lease: 1 })).toBe(second)
    const long = await beat({ lease: 3_600 })
    expect(long - second).toBeGreaterThanOrEqual(3_540_000)
    expect(await beat()).toBe(long)
    await clock.advance(3_500_000)
    expect(await pulling.subscribe({})).toMatchObject({ status: 204 })
    expect(await pulling.event(id)).toMatchObject({ status: 'PROCESSING', retry_count: 0 })
    await clock.advance(100_000)
    const late = await pulling.say('heartbeat', id, claimOf(by, lease))
    expect(late).toMatchObject({ status: 409, json: { code: 'lease_lost', state: 'waiting in work' } })
  })

  test('a heartbeat of an expired lease renews it, if nobody has taken it back yet', async () => {
    const pulling = await open()
    const id = await pulling.publish()
    const lease = await pulling.lease()
    await pulling.pass(leaseMs + 5_000)
    expect(await pulling.say('heartbeat', id, claimOf(by, lease))).toMatchObject({ status: 200 })
    await pulling.server.clock.advance(5_000)
    expect(await pulling.event(id)).toMatchObject({ status: 'PROCESSING', retry_count: 0 })
  })

  test('what is cancelled is told by heartbeat, and a failure then ends it', async () => {
    const pulling = await open()
    const [running, waiting] = (await pulling.publishMany(2)) as [number, number]
    const claim = claimOf(by, await pulling.lease())
    const { server } = pulling
    const cancel = (id: number) => server.call('POST', `/events/${id}/cancel`, { reason: 'wrong' })
    expect(await cancel(running)).toMatchObject({ status: 200, json: { cancelled: 0, told: 1 } })
    expect(await cancel(waiting)).toMatchObject({ status: 200, json: { cancelled: 1, told: 0 } })
    expect(await pulling.say('heartbeat', running, claim)).toMatchObject({
      ...{ status: 200, json: { cancelled: true, cancelled_event_ids: [running] } },
    })
    for (let time = 0; time < 2; time++) {
      const { status, json } = await pulling.say('fail', running, { error_message: 'stopped', ...claim })
      expect(status).toBe(200)
      expect(json).toMatchObject({ action: 'CANCELLED', retry_scheduled: false, next_retry_at: null })
    }
    expect(await pulling.event(running)).toMatchObject({ status: 'CANCELLED', next_retry_at: null })
    expect(await pulling.actions(running)).toEqual(['PICKED', 'CANCELLED'])
    await server.clock.advance(600_000)
    expect(await pulling.subscribe({})).toMatchObject({ status: 204 })
  })

  const ends = [
    ['complete', {}, 'COMPLETED'],
    ['release', {}, 'CANCELLED'],
    ['fail', { permanent: true }, 'FAILED'],
  ] as const
  test('what is cancelled while it runs may still be completed or buried, and is not given out again', async () => {
    const pulling = await open()
    for (const [verb, body, status] of ends) {
      const id = await pulling.publish()
      const claim = claimOf(by, await pulling.lease())
      await pulling.server.call('POST', `/events/${id}/cancel`)
      expect(await pulling.say(verb, id, { ...body, ...claim })).toMatchObject({ status: 200 })
      expect(await pulling.event(id)).toMatchObject({ status })
      expect(await pulling.subscribe({})).toMatchObject({ status: 204 })
    }
  })
})

test('a heartbeat renews everything that was leased with the same token', async () => {
  const pulling = await open()
  const ids = await pulling.publishMany(3)
  const leases = await pulling.leaseMany(3)
  const { lease_token } = leases[0] as Lease
  expect(leases.map((lease) => lease.lease_token)).toEqual([lease_token, lease_token, lease_token])
  await pulling.server.call('POST', `/events/${ids[2]}/cancel`)
  const { json } = await pulling.say('heartbeat', ids[0] as number, { lease_token, lease: 600 })
  expect(json).toMatchObject({ cancelled: false, cancelled_event_ids: [ids[2]] })
  const events = await Promise.all(ids.map((id) => pulling.event(id)))
  for (const { deliveries } of events) expect(deliveries[0].leased_until).toBe(json.lease_expires_at)
  await pulling.server.clock.advance(leaseMs * 2)
  for (const id of ids) expect(await pulling.event(id)).toMatchObject({ status: 'PROCESSING' })
})

test('a heartbeat of a lease that somebody is settling for long is worth another try', async () => {
  const pulling = await open()
  const { db } = pulling.server
  const id = await pulling.publish()
  const { lease_token } = await pulling.lease()
  const beat = () => pulling.say('heartbeat', id, { lease_token })
  await db.transaction(async (tx) => {
    await tx.query(`select from ${db.schema}.runs for update`)
    const { status, json, headers } = await beat()
    expect([status, json.code, headers.get('retry-after')]).toEqual([503, 'lease_busy', '1'])
  })
  expect((await beat()).status).toBe(200)
})

test('a worker that speaks by its tokens alone is alive', async () => {
  const pulling = await open()
  const { server } = pulling
  const id = await pulling.publish()
  const { lease_token } = await pulling.lease('quiet', { lease: 600 })
  await server.clock.advance(31_000)
  const workers = async () => (await server.call('GET', '/workers')).json.workers
  expect(await workers()).toContainEqual(expect.objectContaining({ worker_id: 'quiet', stale: true }))
  await pulling.say('heartbeat', id, { lease_token })
  await server.hub.pull.tellWorkers()
  expect(await workers()).toContainEqual(
    expect.objectContaining({ worker_id: 'quiet', stale: false, in_flight: 1 }),
  )
})

const wrongBeats = [
  [{ lease: 0 }, 'lease'],
  [{ lease: 43_201 }, 'lease'],
  [{ lease: 1.5 }, 'lease'],
  [{ lease: '60' }, 'lease'],
  [{ begun: 1 }, 'begun'],
  [{ begun: [0] }, 'begun[0]'],
  [{ begun: ['1'] }, 'begun[0]'],
  [{ begun: [1], beat: 1 }, 'beat'],
] as const
test('what is no heartbeat is refused by its field', async () => {
  const pulling = await open()
  const id = await pulling.publish()
  await pulling.lease()
  for (const [body, field] of wrongBeats) {
    const refused = await pulling.say('heartbeat', id, { worker_id: 'w', ...body })
    expect(refused).toMatchObject({ status: 422, json: { code: 'bad_field', field } })
  }
})
