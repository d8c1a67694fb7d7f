import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { PosthornError } from '../../src/errors.ts'
import { createLogger } from '../../src/observe/log.ts'
import { useHubs } from '../support/hub.ts'
import { createSignal } from '../support/signal.ts'

/** Transactions that an application begins, gives to the hub and never ends. */

const hubs = useHubs('leaked')
/** Far more than a stop needs on a busy machine, and less than a statement may take. */
const stopMsMax = 8_000
let schemas = 0

async function connect(): Promise<pg.Client> {
  const client = new pg.Client(hubs.connection)
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

function keepLog() {
  const lines: Record<string, unknown>[] = []
  const log = createLogger('warn', { write: (line: string) => void lines.push(JSON.parse(line)) })
  return { lines, log }
}

async function timed(work: () => Promise<void>): Promise<number> {
  const begun = performance.now()
  await work()
  return performance.now() - begun
}

const handlers: [what: string, orderingKey: string | undefined, end: () => Promise<void>][] = [
  ['returns', undefined, async () => undefined],
  ['returns in a lane', 'k', async () => undefined],
  ['throws', undefined, () => Promise.reject(new Error('no'))],
  ['does not end either', undefined, () => new Promise(() => undefined)],
]

test.each(handlers)(
  'a hub stops soon after its grace although a handler has leaked a transaction that completes, and %s',
  async (_, orderingKey, end) => {
    const client = await connect()
    const { lines, log } = keepLog()
    const schema = `leaked_${++schemas}`
    const { hub } = await hubs.open({ log, schema })
    const completed = createSignal()
    hub.on('a', { name: 'h' }, async (_event, attempt) => {
      await client.query('begin')
      await attempt.completeIn(client)
      completed.give()
      await end()
    })
    await hub.start()
    const { id } = await hub.publish({ type: 'a', payload: 1, ...(orderingKey && { orderingKey }) })
    await completed.given
    expect(await timed(() => hub.stop({ graceMs: 200 }))).toBeLessThan(stopMsMax)
    const open = 'the hub stopped while the transaction that was given to completeIn was still open'
    expect(lines).toContainEqual(expect.objectContaining({ subscription: 'h', eventId: id, why: open }))
    expect(lines).toContainEqual(expect.objectContaining({ statements: ['settle'] }))
    // What the transaction does now counts all the same.
    await client.query('commit')
    const { hub: next } = await hubs.open({ schema })
    expect(await next.event(id)).toMatchObject({ deliveries: [{ state: 'completed', attempts: 1 }] })
  },
)

test('what else was under way is settled, although a handler has leaked a transaction', async () => {
  const client = await connect()
  const schema = `leaked_${++schemas}`
  const { hub } = await hubs.open({ schema })
  const [completed, asked] = [createSignal(), createSignal()]
  hub.on('a', { name: 'leaks' }, async (_event, attempt) => {
    await client.query('begin')
    await attempt.completeIn(client)
    completed.give()
  })
  hub.on('a', { name: 'waits' }, async (_event, { signal }) => {
    asked.give()
    await new Promise((resolve) => signal.addEventListener('abort', resolve))
  })
  await hub.start()
  const { id } = await hub.publish({ type: 'a', payload: 1 })
  await Promise.all([completed.given, asked.given])
  await hub.stop({ graceMs: 200 })
  await client.query('rollback')
  const { hub: next } = await hubs.open({ schema })
  const deliveries = (await next.event(id))?.deliveries ?? []
  expect(deliveries.find(({ name }) => name === 'waits')).toMatchObject({ state: 'waiting', attempts: 0 })
})

test('a hub stops soon after its grace although a publish waits for a key that a leaked transaction holds', async () => {
  const client = await connect()
  const { lines, log } = keepLog()
  const { hub } = await hubs.open({ log })
  await hub.start()
  await client.query('begin')
  const event = { type: 'a', payload: 1, idempotencyKey: 'x' }
  await hub.publish(event, { tx: client })
  const waiting = hub.publish(event).catch((error: unknown) => error)
  expect(await timed(() => hub.stop({ graceMs: 100 }))).toBeLessThan(stopMsMax)
  expect(await waiting).toBeInstanceOf(PosthornError)
  expect(lines).toContainEqual(
    expect.objectContaining({
      msg: expect.stringContaining('The hub stopped while publishes were under way'),
    }),
  )
})
