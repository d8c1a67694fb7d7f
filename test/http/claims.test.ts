import { describe, expect, test } from 'vitest'
import { useServers } from '../support/http.ts'
import { Pulling } from './pulling.ts'

/** Who may say what of a lease: whoever holds it, by its token or by name. */

const servers = useServers('claims')
const open = async () => new Pulling(await servers.open())
const verbs = ['complete', 'fail', 'release', 'start', 'heartbeat']

test('whoever does not hold the lease is refused, and an unknown event is not found', async () => {
  const pulling = await open()
  const id = await pulling.publish()
  const { lease_token: token } = await pulling.lease()
  const forged = token.replace(/-(.)/, (_, digit) => `-${digit === '1' ? '2' : '1'}`)
  const strangers = [{ worker_id: 'somebody else' }, { worker_id: 'W' }, { lease_token: forged }]
  for (const verb of verbs) {
    for (const claim of strangers) {
      const refused = await pulling.say(verb, id, claim)
      expect(refused.status, `${verb} ${JSON.stringify(claim)}: ${refused.text}`).toBe(409)
      expect(refused.json).toMatchObject({ code: 'lease_lost', state: 'leased by w in work' })
    }
    for (const claim of [{ worker_id: 'w' }, { lease_token: token }]) {
      const missing = await pulling.say(verb, 4711, claim)
      expect(missing, verb).toMatchObject({
        status: 404,
        json: { code: 'not_found', what: 'event', id: 4711 },
      })
    }
  }
  expect(await pulling.event(id)).toMatchObject({ status: 'PROCESSING', retry_count: 0 })
})

test('with a token the token decides, whatever worker_id comes along', async () => {
  const pulling = await open()
  const id = await pulling.publish()
  const { lease_token } = await pulling.lease()
  const done = await pulling.say('complete', id, { lease_token, worker_id: 'somebody else' })
  expect(done).toMatchObject({ status: 200, json: { action: 'COMPLETED', worker_id: 'w' } })
})

test('a token is for the events that were leased with it', async () => {
  const pulling = await open()
  const [first] = await pulling.publishMany(1)
  const second = await pulling.publish()
  const lease = await pulling.lease('w')
  expect(lease.id).toBe(first)
  for (const verb of verbs) {
    const refused = await pulling.say(verb, second, { lease_token: lease.lease_token })
    expect(refused, verb).toMatchObject({ status: 409, json: { state: 'waiting in work' } })
  }
})

/** Each part altered by itself, as a token that a lease may well have given. */
function alter(token: string): string[] {
  const [, kind, run, random = '', subscription] = /^([kr])(\w+)-(\w+)-(\w+)$/.exec(token) ?? []
  const other = random.slice(0, -1) + (random.endsWith('1') ? '2' : '1')
  return [
    `${kind}${run}-${random}-${subscription === '1' ? '2' : '1'}`,
    `${kind}${run}-${random}-0${subscription}`,
    `${kind}${run}-${other}-${subscription}`,
    `${kind}${run}1-${random}-${subscription}`,
    `${kind}0${run}-${random}-${subscription}`,
    `${kind === 'k' ? 'r' : 'k'}${run}-${random}-${subscription}`,
  ]
}

describe.each([{}, { ordering_key: 'a' }])('an altered token of an event with %j', (fields) => {
  test('is refused, and the completion that came with it is not recorded', async () => {
    const pulling = await open()
    const id = await pulling.publish(fields)
    const { lease_token: token } = await pulling.lease()
    const before = await pulling.event(id)
    for (const lease_token of alter(token)) {
      for (const verb of verbs) {
        const refused = await pulling.say(verb, id, { lease_token })
        const what = `${verb} by ${lease_token} instead of ${token}: ${refused.text}`
        expect(refused, what).toMatchObject({ status: 409, json: { code: 'lease_lost' } })
      }
      const [settled] = await pulling.settle([{ event_id: id, lease_token, outcome: 'complete' }])
      expect(settled, lease_token).toMatchObject({ status: 409, code: 'lease_lost' })
      expect(await pulling.event(id)).toEqual(before)
    }
    expect(await pulling.say('complete', id, { lease_token: token })).toMatchObject({ status: 200 })
    for (const lease_token of alter(token)) {
      const repeated = await pulling.say('complete', id, { lease_token })
      expect(repeated, lease_token).toMatchObject({ status: 409, json: { code: 'lease_lost' } })
    }
    expect(await pulling.say('complete', id, { lease_token: token })).toMatchObject({ status: 200 })
  })

  test('settles nothing that was taken back from its worker, while the right one does', async () => {
    const pulling = await open()
    const [id = 0] = await pulling.publishMany(3, fields)
    const { lease_token: token } = await pulling.lease()
    await pulling.server.clock.advance(61_000)
    const before = await pulling.event(id)
    for (const lease_token of alter(token)) {
      for (const verb of ['complete', 'fail', 'release']) {
        const refused = await pulling.say(verb, id, { lease_token })
        expect(refused, `${verb} by ${lease_token} instead of ${token}`).toMatchObject({ status: 409 })
      }
    }
    expect(await pulling.event(id)).toEqual(before)
    expect(await pulling.say('complete', id, { lease_token: token })).toMatchObject({ status: 200 })
  })
})

const wrongClaims = [
  [{}, 'worker_id'],
  [{ worker_id: '' }, 'worker_id'],
  [{ worker_id: 7 }, 'worker_id'],
  [{ worker_id: 'x'.repeat(256) }, 'worker_id'],
  [{ worker_id: 'nul\u0000' }, 'worker_id'],
  [{ worker_id: '\ud800' }, 'worker_id'],
  [{ lease_token: '' }, 'lease_token'],
  [{ lease_token: 'r1-2s' }, 'lease_token'],
  [{ lease_token: 'r1-2s-0 ' }, 'lease_token'],
  [{ lease_token: "r1-2s-0'; drop table runs" }, 'lease_token'],
  [{ lease_token: 'rzzzzzzzzzzz-1-0' }, 'lease_token'],
  [{ lease_token: 'r1-1-zzzzz' }, 'lease_token'],
  [{ lease_token: 'R1-1-0' }, 'lease_token'],
  [{ lease_token: null }, 'lease_token'],
  [{ lease_token: 'x'.repeat(61) }, 'lease_token'],
  [{ worker_id: 'w', leaseToken: 'r1-1-0' }, 'leaseToken'],
] as const
test('what is no claim is refused by its field', async () => {
  const pulling = await open()
  const id = await pulling.publish()
  await pulling.lease()
  for (const [claim, field] of wrongClaims) {
    for (const verb of verbs) {
      const { status, json, text } = await pulling.say(verb, id, claim)
      expect(status, `${verb} ${text}`).toBe(422)
      expect(json, verb).toMatchObject({ code: 'bad_field', field })
    }
  }
  expect(await pulling.event(id)).toMatchObject({ status: 'PROCESSING' })
})

test('an event that a worker holds through two queues needs the token', async () => {
  const pulling = await open()
  const subscriber = { name: 'audit', via: 'pull', event_types: ['order.*'] }
  expect(await pulling.server.call('POST', '/subscribers', subscriber)).toMatchObject({ status: 201 })
  const id = await pulling.publish({ type: 'order.created' })
  const work = await pulling.lease('w')
  const audit = await pulling.lease('w', { subscription: 'audit' })
  expect([work.subscription, audit.subscription, work.id, audit.id]).toEqual(['work', 'audit', id, id])
  for (const verb of verbs) {
    const { status, json } = await pulling.say(verb, id, { worker_id: 'w' })
    expect(status, verb).toBe(409)
    expect(json).toMatchObject({ code: 'ambiguous_lease', event_id: id, subscriptions: 'audit, work' })
  }
  const { lease_token } = work
  expect(await pulling.say('heartbeat', id, { lease_token })).toMatchObject({ status: 200 })
  expect(await pulling.say('fail', id, { lease_token })).toMatchObject({ status: 200 })
  // Of the two only one is held now, so the name is enough.
  expect(await pulling.say('complete', id, { worker_id: 'w' })).toMatchObject({ status: 200 })
  expect((await pulling.event(id)).deliveries).toMatchObject([
    { subscription: 'work', state: 'waiting', failures: 1 },
    { subscription: 'audit', state: 'completed', failures: 0 },
  ])
  // And what it last held is what a repeat means.
  expect(await pulling.say('complete', id, { worker_id: 'w' })).toMatchObject({ status: 200 })
  expect(await pulling.say('fail', id, { lease_token })).toMatchObject({ status: 200 })
})

test('a process that comes back under the same name settles what it holds', async () => {
  const pulling = await open()
  const ids = await pulling.publishMany(2)
  await pulling.lease('host:1')
  await pulling.lease('host:1')
  for (const id of ids) {
    expect(await pulling.say('complete', id, { worker_id: 'host:1' })).toMatchObject({ status: 200 })
  }
})
