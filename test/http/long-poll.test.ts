import { afterEach, expect, test, vi } from 'vitest'
import { testPosthorn } from '../../src/testing/index.ts'
import { type TestAnswer, useServers } from '../support/http.ts'
import { eventually } from '../support/signal.ts'
import { type Json, Pulling } from './pulling.ts'
import { listenToStatements, park } from './waiting.ts'

/** GET /events/subscribe?wait=: calls that are parked until there is something for them. */

const servers = useServers('longpoll')
const closing: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
  vi.restoreAllMocks()
})

async function open(schema?: string): Promise<Pulling> {
  return new Pulling(await servers.open(schema === undefined ? {} : { hub: { schema } }))
}

test('a parked call gets what is published in this process', async () => {
  const pulling = await open()
  const [call] = await park(pulling, 1)
  const id = await pulling.publish()
  expect(await call).toMatchObject({ status: 200, json: { id, attempt: 1, status: 'PROCESSING' } })
  expect(pulling.server.hub.pull.waiting).toBe(0)
})

test('a parked call gets what is published by another process', async () => {
  const pulling = await open('shared')
  const other = await testPosthorn({ database: servers.connection, schema: 'shared' })
  closing.push(() => other.hub.stop())
  for (let time = 0; time < 5; time++) {
    const [call] = await park(pulling, 1)
    const { id } = await other.hub.publish({ title: 'x', tags: ['a'], payload: time })
    expect(await call).toMatchObject({ status: 200, json: { id, payload: time } })
  }
})

test('a parked call gets a retry that becomes due, though nothing happens then', async () => {
  const pulling = await open()
  const id = await pulling.publish()
  await pulling.lease('first')
  await pulling.say('fail', id, { worker_id: 'first' })
  const [call] = await park(pulling, 1)
  await pulling.pass(300_000)
  expect(await call).toMatchObject({ status: 200, json: { id, attempt: 2, retry_count: 1 } })
})

test('a parked call gets what is behind the head of a lane as soon as that is done', async () => {
  const pulling = await open()
  const [first, second] = (await pulling.publishMany(2, { ordering_key: 'k' })) as [number, number]
  await pulling.lease('first')
  const [call] = await park(pulling, 1)
  await pulling.say('complete', first, { worker_id: 'first' })
  expect(await call).toMatchObject({ status: 200, json: { id: second } })
})

test('a parked call gets what another worker hands back', async () => {
  const pulling = await open()
  const id = await pulling.publish()
  await pulling.lease('first')
  const [call] = await park(pulling, 1)
  await pulling.say('release', id, { worker_id: 'first' })
  expect(await call).toMatchObject({ status: 200, json: { id, attempt: 1, retry_count: 0 } })
})

test('a parked call gets what was held when the queue is resumed', async () => {
  const pulling = await open()
  const { server } = pulling
  const { json } = await server.call('GET', '/subscribers')
  const { id: work } = json.subscribers.find((one: Json) => one.name === 'work')
  await server.call('POST', `/subscribers/${work}/pause`)
  const [call] = await park(pulling, 1)
  const id = await pulling.publish()
  await server.call('POST', `/subscribers/${work}/resume`)
  expect(await call).toMatchObject({ status: 200, json: { id } })
})

test('whoever does not want what its worker vanished with does not keep it from others', async () => {
  const pulling = await open()
  const id = await pulling.publish()
  await pulling.lease('vanished')
  const wary = await park(pulling, 3, { suspects: 'false' })
  const [brave] = await park(pulling, 1)
  await pulling.server.clock.advance(60_001)
  expect(await brave).toMatchObject({ status: 200, json: { id, suspect: true } })
  expect(pulling.server.hub.pull.waiting).toBe(3)
  await pulling.server.hub.pull.stop()
  for (const call of wary) expect(await call).toMatchObject({ status: 204 })
})

test('when the wait is over the answer is 204', async () => {
  const pulling = await open()
  const startedAt = performance.now()
  expect(await pulling.subscribe({ wait: 1 })).toMatchObject({ status: 204, text: '' })
  const tookMs = performance.now() - startedAt
  expect(tookMs).toBeGreaterThan(990)
  expect(tookMs).toBeLessThan(20_000)
  expect(pulling.server.hub.pull.waiting).toBe(0)
})

test('what is there already is not waited for', async () => {
  const pulling = await open()
  const [id] = await pulling.publishMany(1)
  expect(await pulling.subscribe({ wait: 60, limit: 10 })).toMatchObject({ status: 200, json: [{ id }] })
})

test('one publish wakes one of fifty, and the others sleep on', async () => {
  const pulling = await open()
  const { hub } = pulling.server
  const calls = await park(pulling, 50)
  const statements = listenToStatements()
  const id = await pulling.publish()
  expect(await Promise.race(calls)).toMatchObject({ status: 200, json: { id } })
  const twoLooksLater = async () => {
    const looks = statements.count('peek')
    await eventually('two more looks', () => statements.count('peek') >= looks + 2)
    await eventually('49 calls sleep', () => hub.pull.waiting === 49)
    return statements.count('lease')
  }
  // Looks that were on their way as the event was leased wake one more each.
  let [before, woken] = [0, await twoLooksLater()]
  while (woken !== before) [before, woken] = [woken, await twoLooksLater()]
  expect(woken).toBeLessThan(10)
  await hub.pull.stop()
  const statuses = (await Promise.all(calls)).map(({ status }) => status)
  expect(statuses.sort()).toEqual([200, ...Array.from({ length: 49 }, () => 204)])
})

test.each(['one by one', 'together'])(
  'ten that are published %s wake ten, each with its own',
  async (how) => {
    const pulling = await open()
    const { hub } = pulling.server
    const calls = await park(pulling, 20)
    const ids =
      how === 'together'
        ? await pulling.publishMany(10)
        : await Promise.all(Array.from({ length: 10 }, () => pulling.publish()))
    await eventually('ten have got one', () => hub.pull.waiting === 10)
    await hub.pull.stop()
    const answers = await Promise.all(calls)
    const got = answers.flatMap(({ status, json }) => (status === 200 ? [json.id] : []))
    expect(got.sort((a, b) => a - b)).toEqual(ids.sort((a, b) => a - b))
  },
)

test('whoever waits for something else is not woken', async () => {
  const pulling = await open()
  const { hub } = pulling.server
  await pulling.server.call('POST', '/subscribers', { name: 'audit', via: 'pull', event_types: ['x'] })
  await park(pulling, 5, { tags: 'b,c' })
  await park(pulling, 5, { subscription: 'audit' })
  const [call] = await park(pulling, 1, { tags: 'c,a' })
  const statements = listenToStatements()
  const id = await pulling.publish({ tags: 'd,a' })
  expect(await call).toMatchObject({ json: { id } })
  await eventually('two looks', () => statements.count('peek') >= 2)
  // One lease, or two if the look of every second admits the event just as the call looks for it.
  expect(statements.count('lease')).toBeLessThanOrEqual(2)
  expect(hub.pull.waiting).toBe(10)
})

test('when it stops all who wait are answered at once, and nobody is parked any more', async () => {
  const pulling = await open()
  const { hub } = pulling.server
  const calls = await park(pulling, 50)
  const startedAt = performance.now()
  await hub.pull.stop()
  const answers: TestAnswer[] = await Promise.all(calls)
  expect(performance.now() - startedAt).toBeLessThan(20_000)
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 204))
  expect(await pulling.subscribe({ wait: 60 })).toMatchObject({ status: 204 })
  const id = await pulling.publish()
  expect(await pulling.subscribe({ wait: 60 })).toMatchObject({ status: 200, json: { id } })
})
