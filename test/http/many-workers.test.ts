import { expect, test } from 'vitest'
import { useServers } from '../support/http.ts'
import { Pulling } from './pulling.ts'

/** Many workers that each ask for one event: their calls share statements, and none of them notices. */

const servers = useServers('many_workers')
const crowd = Array.from({ length: 16 }, (_, n) => `w${n}`)

test('workers that ask at once get one event each, the oldest', async () => {
  const pulling = new Pulling(await servers.open())
  const ids = await pulling.publishMany(40)
  const first = await Promise.all(crowd.map((worker) => pulling.lease(worker)))
  expect(first.map(({ id }) => id).sort((a, b) => a - b)).toEqual(ids.slice(0, 16))
  expect(new Set(first.map(({ lease_token }) => lease_token)).size).toBe(16)
  const second = await Promise.all(crowd.map((worker) => pulling.lease(worker)))
  expect(second.map(({ id }) => id).sort((a, b) => a - b)).toEqual(ids.slice(16, 32))
})

test('each completes its own by its name, also twice, and nobody else can', async () => {
  const pulling = new Pulling(await servers.open())
  await pulling.publishMany(16)
  const leases = await Promise.all(crowd.map((worker) => pulling.lease(worker)))
  const others = await Promise.all(
    leases.map(({ id }) => pulling.say('complete', id, { worker_id: 'thief' })),
  )
  expect(others.map(({ status }) => status)).toEqual(crowd.map(() => 409))
  const complete = () =>
    Promise.all(
      leases.map(({ id, worker }) =>
        pulling.say('complete', id, { worker_id: worker, execution_time_ms: 7, status_code: 201 }),
      ),
    )
  const answers = await complete()
  for (const [place, { status, json }] of answers.entries()) {
    const { id, worker } = leases[place] as (typeof leases)[number]
    expect({ status, json }).toMatchObject({
      status: 200,
      json: { event_id: id, worker_id: worker, action: 'COMPLETED', execution_time_ms: 7, status_code: 201 },
    })
    expect((await pulling.event(id)).logs.at(-1)).toMatchObject({ id: json.id, action: 'COMPLETED' })
  }
  expect((await complete()).map(({ json }) => json)).toEqual(answers.map(({ json }) => json))
})

test('some ask in vain when there are fewer events than workers', async () => {
  const pulling = new Pulling(await servers.open())
  const ids = await pulling.publishMany(3)
  const answers = await Promise.all(crowd.map((worker) => pulling.subscribe({ worker_id: worker })))
  const found = answers.filter(({ status }) => status === 200).map(({ json }) => json.id)
  expect(found.sort((a, b) => a - b)).toEqual(ids)
  expect(answers.filter(({ status }) => status === 204)).toHaveLength(13)
})

test('of each lane one worker gets the head, and nobody what is behind it', async () => {
  const pulling = new Pulling(await servers.open())
  const heads: number[] = []
  for (const key of ['a', 'b', 'c']) {
    const [head] = await pulling.publishMany(3, { ordering_key: key })
    heads.push(head as number)
  }
  const answers = await Promise.all(crowd.map((worker) => pulling.subscribe({ worker_id: worker })))
  const found = answers.filter(({ status }) => status === 200).map(({ json }) => json.id)
  expect(found.sort((a, b) => a - b)).toEqual(heads)
})

test('each gets an event with a tag that it asks for', async () => {
  const pulling = new Pulling(await servers.open())
  const red = await pulling.publishMany(8, { tags: 'red,a' })
  const blue = await pulling.publishMany(8, { tags: 'blue,a' })
  const leased = await Promise.all(
    crowd.map((worker, n) => pulling.lease(worker, { tags: n % 2 === 0 ? 'red' : 'blue,green' })),
  )
  const idsOf = (parity: number) =>
    leased
      .filter((_, n) => n % 2 === parity)
      .map(({ id }) => id)
      .sort((a, b) => a - b)
  expect([idsOf(0), idsOf(1)]).toEqual([red, blue])
})

test('an event is completed by the name of its worker at another server than the one that leased it', async () => {
  const here = await servers.open({ hub: { schema: 'two_servers' } })
  const there = await servers.open({ hub: { schema: 'two_servers' } })
  const [one, other] = [new Pulling(here), new Pulling(there)]
  await one.publishMany(2)
  const { id } = await one.lease('w')
  expect((await other.say('complete', id, { worker_id: 'w' })).status).toBe(200)
  expect((await one.say('complete', id, { worker_id: 'w' })).status).toBe(200)
  expect((await one.say('fail', id, { worker_id: 'w' })).status).toBe(409)
  expect(await one.actions(id)).toEqual(['PICKED', 'COMPLETED'])
})

test('a lease that somebody has locked holds up nobody else’s completion', async () => {
  const server = await servers.open()
  const pulling = new Pulling(server)
  await pulling.publishMany(4)
  const leases = await Promise.all(crowd.slice(0, 4).map((worker) => pulling.lease(worker)))
  const [locked, ...others] = leases
  let late: Promise<{ status: number }> | undefined
  await server.db.transaction(async (tx) => {
    const find = `select id from ${server.db.schema}.runs where event_ids[1] = $1 for update`
    await tx.query(find, [locked?.id])
    late = pulling.say('complete', locked?.id ?? 0, { worker_id: locked?.worker })
    const answers = await Promise.all(
      others.map(({ id, worker }) => pulling.say('complete', id, { worker_id: worker })),
    )
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
  })
  expect((await late)?.status).toBe(200)
})

test('an event whose lease has ended and begun again is settled by whoever has it now', async () => {
  const pulling = new Pulling(await servers.open())
  await pulling.publishMany(1)
  const { id } = await pulling.lease('slow', { lease: 1 })
  await pulling.server.clock.advance(10_000)
  const { worker } = await pulling.lease('quick', { wait: 20 })
  expect((await pulling.say('complete', id, { worker_id: 'slow' })).status).toBe(409)
  expect((await pulling.say('complete', id, { worker_id: worker })).status).toBe(200)
})

test('everybody gets one also where a few single events come before a long run', async () => {
  const pulling = new Pulling(await servers.open())
  const ids = await pulling.publishMany(100)
  // By now the server expects long runs.
  const first = await Promise.all(crowd.map((worker) => pulling.lease(worker)))
  for (const { id, worker } of first) await pulling.say('fail', id, { worker_id: worker })
  await pulling.server.clock.advance(400_000)
  const second = await Promise.all([...crowd, 'one more'].map((worker) => pulling.lease(worker)))
  expect(second.map(({ id }) => id).sort((a, b) => a - b)).toEqual(ids.slice(0, 17))
})

test('everybody gets one where all that waits expires soon', async () => {
  const pulling = new Pulling(await servers.open())
  const expires_at = new Date(Date.now() + 50_000).toISOString()
  await pulling.publishMany(100, { expires_at })
  const answers = await Promise.all(crowd.map((worker) => pulling.subscribe({ worker_id: worker })))
  expect(answers.map(({ status }) => status)).toEqual(crowd.map(() => 200))
})

test('by its name a worker means neither of two leases that two servers gave it', async () => {
  const here = await servers.open({ hub: { schema: 'two_leases' } })
  const there = await servers.open({ hub: { schema: 'two_leases' } })
  for (const name of ['p', 'q'])
    await here.call('POST', '/subscribers', { name, via: 'pull', event_types: ['t'] })
  const [one, other] = [new Pulling(here), new Pulling(there)]
  const id = await one.publish({ type: 't', tags: null })
  const held = await one.lease('w', { subscription: 'p' })
  await other.lease('w', { subscription: 'q' })
  expect(await one.say('complete', id, { worker_id: 'w' })).toMatchObject({
    status: 409,
    json: { code: 'ambiguous_lease' },
  })
  expect((await one.say('complete', id, { lease_token: held.lease_token })).status).toBe(200)
  expect((await one.say('complete', id, { worker_id: 'w' })).status).toBe(200)
  expect((await one.event(id)).status).toBe('COMPLETED')
})
