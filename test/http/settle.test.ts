import { describe, expect, test } from 'vitest'
import { useServers } from '../support/http.ts'
import { bodyOf, claimOf, claims, isTime, type Lease, Pulling } from './pulling.ts'

/** What a worker may say of an attempt, how often, and until when. */

const servers = useServers('settle')
const open = async () => new Pulling(await servers.open())

const leaseMs = 60_000
const retryMs = 300_000

/** Every way to end an attempt by a call of its own, and what becomes of the event. */
const endings = [
  { verb: 'complete', body: { execution_time_ms: 5, status_code: 200 }, status: 200, after: 'COMPLETED' },
  { verb: 'fail', body: { error_message: 'no', status_code: 500 }, status: 200, after: 'PENDING' },
  { verb: 'fail', body: { permanent: true }, status: 200, after: 'FAILED' },
  { verb: 'fail', body: { error_message: 'final' }, maxRetries: 1, status: 400, after: 'FAILED' },
  { verb: 'release', body: {}, status: 200, after: 'PENDING' },
] as const

describe.each(claims)('by %s', (by) => {
  test('the repeat of a settlement gives the first answer and writes nothing', async () => {
    const pulling = await open()
    for (const { verb, body, status, after, ...more } of endings) {
      const id = await pulling.publish('maxRetries' in more ? { max_retries: more.maxRetries } : {})
      const lease = await pulling.lease()
      expect(lease.id).toBe(id)
      const report = { ...body, ...claimOf(by, lease) }
      const first = await pulling.say(verb, id, report)
      expect(first.status, first.text).toBe(status)
      const event = await pulling.event(id)
      expect(event.status).toBe(after)
      for (let time = 0; time < 2; time++) {
        const again = await pulling.say(verb, id, report)
        expect(bodyOf(again)).toEqual(bodyOf(first))
        expect(await pulling.event(id)).toEqual(event)
      }
      // What waits again is out of the way of the next row.
      if (after === 'PENDING') await pulling.server.call('POST', `/events/${id}/cancel`)
    }
  })

  const others = endings.flatMap((first) =>
    endings.filter(({ verb }) => verb !== first.verb).map((second) => ({ first, second })),
  )
  test('another settlement of the same attempt is refused, with the current state', async () => {
    const pulling = await open()
    for (const { first, second } of others) {
      const id = await pulling.publish('maxRetries' in first ? { max_retries: first.maxRetries } : {})
      const claim = claimOf(by, await pulling.lease())
      await pulling.say(first.verb, id, { ...first.body, ...claim })
      const before = await pulling.event(id)
      const refused = await pulling.say(second.verb, id, { ...second.body, ...claim })
      expect(refused.status, `${first.verb}, then ${second.verb}: ${refused.text}`).toBe(409)
      expect(refused.json).toMatchObject({
        ...{ code: 'lease_lost', event_id: id, event_status: first.after },
        state: expect.stringContaining(`${before.deliveries[0].state} in work`),
      })
      expect(await pulling.event(id)).toEqual(before)
      if (first.after === 'PENDING') await pulling.server.call('POST', `/events/${id}/cancel`)
    }
  })

  test('a network retry of a failure is not a second failure, a second failure is', async () => {
    const pulling = await open()
    const { clock } = pulling.server
    const id = await pulling.publish()
    for (const failures of [1, 2]) {
      const lease = await pulling.lease()
      expect(lease).toMatchObject({ id, attempt: failures, retry_count: failures - 1 })
      for (let time = 0; time < 3; time++) {
        const { status, json } = await pulling.say('fail', id, claimOf(by, lease))
        expect(status).toBe(200)
        expect(json).toMatchObject({ retry_count: failures, retry_scheduled: true, max_retries: 3 })
      }
      expect(await pulling.event(id)).toMatchObject({ retry_count: failures, status: 'PENDING' })
      await clock.advance(retryMs)
      // Also when the retry is due and could be leased.
      expect(await pulling.say('fail', id, claimOf(by, lease))).toMatchObject({
        ...{ status: 200, json: { retry_count: failures } },
      })
    }
    expect(await pulling.actions(id)).toEqual(['PICKED', 'FAILED', 'PICKED', 'FAILED'])
  })

  test('a repeat that comes while another worker has the retry does not touch it', async () => {
    const pulling = await open()
    const id = await pulling.publish()
    const lost = await pulling.lease('first')
    const failed = await pulling.say('fail', id, { error_message: 'no', ...claimOf(by, lost) })
    await pulling.server.clock.advance(retryMs)
    const held = await pulling.lease('second')
    const again = await pulling.say('fail', id, { error_message: 'no', ...claimOf(by, lost) })
    expect(bodyOf(again)).toEqual(bodyOf(failed))
    const other = await pulling.say('complete', id, claimOf(by, lost))
    expect(other).toMatchObject({ status: 409, json: { code: 'lease_lost', event_status: 'PROCESSING' } })
    expect(other.json.state).toBe('leased by second in work')
    expect(await pulling.say('complete', id, claimOf(by, held))).toMatchObject({ status: 200 })
  })

  test.each(['not reclaimed', 'reclaimed'])('what is expired, and %s, can still be settled', async (when) => {
    const pulling = await open()
    let passedMs = 0
    for (const verb of ['complete', 'fail', 'release'] as const) {
      const id = await pulling.publish()
      const lease = await pulling.lease()
      passedMs += leaseMs + 1
      if (when === 'reclaimed') await pulling.server.clock.advance(leaseMs + 1)
      else await pulling.pass(passedMs)
      const late = await pulling.say(verb, id, claimOf(by, lease))
      expect(late.status, `${verb}: ${late.text}`).toBe(200)
      expect(bodyOf(await pulling.say(verb, id, claimOf(by, lease)))).toEqual(bodyOf(late))
      const after = { complete: 'COMPLETED', fail: 'PENDING', release: 'PENDING' }[verb]
      // Handed back late it keeps the failure that the end of its lease has counted.
      const isFailure = verb === 'fail' || (verb === 'release' && when === 'reclaimed')
      expect(await pulling.event(id)).toMatchObject({ status: after, retry_count: isFailure ? 1 : 0 })
      await pulling.server.call('POST', `/events/${id}/cancel`)
    }
  })

  test('once another worker has it, nothing that the first one says counts', async () => {
    const pulling = await open()
    const id = await pulling.publish()
    const lost = await pulling.lease('first')
    await pulling.server.clock.advance(leaseMs + 1)
    const held = await pulling.lease('second')
    expect(held).toMatchObject({ id, attempt: 2, retry_count: 1, suspect: true })
    const before = await pulling.event(id)
    for (const verb of ['complete', 'fail', 'release', 'start', 'heartbeat']) {
      const late = await pulling.say(verb, id, claimOf(by, lost))
      expect(late.status, `${verb}: ${late.text}`).toBe(409)
      expect(late.json).toMatchObject({ code: 'lease_lost', state: 'leased by second in work' })
    }
    expect(await pulling.event(id)).toEqual(before)
    expect(await pulling.say('complete', id, claimOf(by, held))).toMatchObject({ status: 200 })
  })

  test('each of a batch can be settled late, though the reclaim has taken the batch apart', async () => {
    const pulling = await open()
    const ids = await pulling.publishMany(5)
    const leases = await pulling.leaseMany(5)
    expect(leases.map(({ id }) => id)).toEqual(ids)
    expect(new Set(leases.map((lease) => lease.lease_token)).size).toBe(1)
    await pulling.server.clock.advance(leaseMs + 1)
    const [taken, completed, failed, released, left] = leases as [never, never, never, never, never]
    expect((await pulling.lease('second')).id).toBe(ids[0])
    expect(await pulling.say('complete', ids[0] as number, claimOf(by, taken))).toMatchObject({ status: 409 })
    expect(await pulling.say('complete', ids[1] as number, claimOf(by, completed))).toMatchObject({
      status: 200,
    })
    expect(await pulling.say('fail', ids[2] as number, claimOf(by, failed))).toMatchObject({ status: 200 })
    expect(await pulling.say('release', ids[3] as number, claimOf(by, released))).toMatchObject({
      status: 200,
    })
    const states = await Promise.all(ids.map((id) => pulling.event(id)))
    expect(states.map(({ status, retry_count }) => [status, retry_count])).toEqual([
      ...[
        ['PROCESSING', 1],
        ['COMPLETED', 0],
        ['PENDING', 1],
        ['PENDING', 1],
        ['PENDING', 1],
      ],
    ])
    expect((await pulling.lease('second')).id).toBe(ids[3])
    expect((await pulling.lease('second')).id).toBe(ids[4])
    expect(await pulling.say('complete', ids[4] as number, claimOf(by, left))).toMatchObject({ status: 409 })
  })

  test('a failure that the reclaim has counted is not counted again when the worker reports it', async () => {
    const pulling = await open()
    const id = await pulling.publish({ max_retries: 2 })
    const lease = await pulling.lease()
    await pulling.server.clock.advance(leaseMs + 1)
    expect(await pulling.event(id)).toMatchObject({ retry_count: 1, status: 'PENDING' })
    for (let time = 0; time < 2; time++) {
      const late = await pulling.say('fail', id, { error_message: 'slow', ...claimOf(by, lease) })
      expect(late).toMatchObject({ status: 200, json: { retry_count: 1, max_retries: 2 } })
      expect(Date.parse(late.json.next_retry_at) - Date.parse(late.json.created_at)).toBe(retryMs)
    }
    expect(await pulling.event(id)).toMatchObject({ retry_count: 1, status: 'PENDING' })
    await pulling.server.clock.advance(retryMs)
    const last = await pulling.lease()
    const final = await pulling.say('fail', id, claimOf(by, last))
    expect(final).toMatchObject({ status: 400, json: { retry_count: 2, max_retries: 2 } })
  })

  test('what the reclaim has buried stays buried', async () => {
    const pulling = await open()
    const id = await pulling.publish({ max_retries: 1 })
    const lease = await pulling.lease()
    await pulling.server.clock.advance(leaseMs + 1)
    const before = await pulling.event(id)
    expect(before).toMatchObject({ status: 'FAILED', retry_count: 1 })
    for (const verb of ['complete', 'fail', 'release', 'start', 'heartbeat']) {
      const late = await pulling.say(verb, id, claimOf(by, lease))
      expect(late.status, `${verb}: ${late.text}`).toBe(409)
      expect(late.json).toMatchObject({ code: 'lease_lost', state: 'buried in work', event_status: 'FAILED' })
    }
    expect(await pulling.event(id)).toEqual(before)
  })

  test('an operator takes an event back, and its worker is fenced off', async () => {
    const pulling = await open()
    const id = await pulling.publish()
    const lease = await pulling.lease()
    await pulling.server.call('POST', `/events/${id}/reset?reason=stuck`)
    for (const verb of ['complete', 'fail', 'release', 'start', 'heartbeat']) {
      const late = await pulling.say(verb, id, claimOf(by, lease))
      expect(late, verb).toMatchObject({
        status: 409,
        json: { code: 'lease_lost', state: 'waiting in work' },
      })
    }
    const again = await pulling.lease()
    expect(again).toMatchObject({ id, attempt: 2, retry_count: 0 })
    expect(await pulling.say('complete', id, claimOf(by, again))).toMatchObject({ status: 200 })
    expect(await pulling.actions(id)).toEqual(['PICKED', 'RESET', 'PICKED', 'COMPLETED'])
  })

  test('a permanent failure buries at once', async () => {
    const pulling = await open()
    const id = await pulling.publish()
    const report = { permanent: true, error_message: 'no such user', ...claimOf(by, await pulling.lease()) }
    const { status, json } = await pulling.say('fail', id, report)
    expect(status).toBe(200)
    expect(json).toEqual({
      ...{ id: expect.any(Number), event_id: id, worker_id: 'w', action: 'FAILED', created_at: isTime },
      ...{ error_message: 'no such user', retry_scheduled: false, next_retry_at: null },
      ...{ retry_count: 1, max_retries: 3 },
    })
    expect(await pulling.event(id)).toMatchObject({ status: 'FAILED', retry_count: 1, next_retry_at: null })
    await pulling.server.clock.advance(retryMs)
    expect(await pulling.subscribe({})).toMatchObject({ status: 204 })
  })

  test('of many reports at once one counts, and the same ones get the same answer', async () => {
    const pulling = await open()
    for (let round = 0; round < 5; round++) {
      const id = await pulling.publish()
      const claim = claimOf(by, await pulling.lease())
      const verbs = Array.from({ length: 20 }, (_, no) => (no % 2 === 0 ? 'complete' : 'fail'))
      const answers = await Promise.all(verbs.map((verb) => pulling.say(verb, id, claim)))
      const of = (wanted: string) => answers.filter((_, no) => verbs[no] === wanted)
      const won = of('complete')[0]?.status === 200 ? 'complete' : 'fail'
      const lost = won === 'complete' ? 'fail' : 'complete'
      for (const answer of of(won)) expect(bodyOf(answer)).toEqual(bodyOf(of(won)[0] as typeof answer))
      for (const answer of of(lost))
        expect(answer).toMatchObject({ status: 409, json: { code: 'lease_lost' } })
      expect(await pulling.actions(id)).toEqual(['PICKED', won === 'complete' ? 'COMPLETED' : 'FAILED'])
      if (won === 'fail') await pulling.server.call('POST', `/events/${id}/cancel`)
    }
  })

  test('what was leased together is settled one by one', async () => {
    const pulling = await open()
    const [first, second, third] = (await pulling.publishMany(3)) as [number, number, number]
    const claim = claimOf(by, (await pulling.leaseMany(3))[0] as Lease)
    expect(await pulling.say('fail', second, claim)).toMatchObject({ status: 200 })
    expect(await pulling.say('complete', third, claim)).toMatchObject({ status: 200 })
    expect(await pulling.say('heartbeat', second, claim)).toMatchObject({ status: 409 })
    expect(await pulling.say('heartbeat', first, { ...claim, lease: 600 })).toMatchObject({ status: 200 })
    await pulling.server.clock.advance(retryMs)
    expect(await pulling.lease('other')).toMatchObject({ id: second, retry_count: 1, attempt: 2 })
    expect(await pulling.event(first)).toMatchObject({ status: 'PROCESSING', retry_count: 0 })
    expect(await pulling.say('complete', first, claim)).toMatchObject({ status: 200 })
  })
})
