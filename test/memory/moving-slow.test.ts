import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { useHubs } from '../support/hub.ts'
import { createSignal, eventually } from '../support/signal.ts'

/** A queue is moved to the database while handlers are under way that take longer than the move waits for them. */

const hubs = useHubs('memory_moving_slow')
const options = { name: 'm', concurrency: 2, leaseMs: 1_500 } as const

async function connect(): Promise<pg.Client> {
  const client = new pg.Client(hubs.connection)
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

/** An owner whose attempts at event 1 wait for a signal, and a second process that has the queue moved meanwhile. */
async function moveWhileOneRuns(schema: string, { fails = false, orderingKey = 'k' as string | null } = {}) {
  const owner = await hubs.open({ schema })
  const held = createSignal()
  const log: string[] = []
  const handle = (who: string) => async (event: { payload: unknown }, attempt: { number: number }) => {
    log.push(`${who} begins ${event.payload}, attempt ${attempt.number}`)
    if (event.payload === 1 && attempt.number === 1) await held.given
    log.push(`${who} ends ${event.payload}`)
    if (fails && event.payload === 1 && attempt.number === 1) throw new Error('no')
  }
  const retry = { baseMs: 3_600_000, maxMs: 3_600_000, jitter: 0 }
  owner.hub.on('t', { ...options, retry, storage: 'memory' }, handle('owner'))
  await owner.hub.start()
  await owner.hub.publishMany([1, 2, 3].map((payload) => ({ type: 't', payload, orderingKey })))
  await eventually('the first is under way', () => log.length > 0)
  const mover = await hubs.open({ schema })
  mover.hub.on('t', { ...options, retry }, handle('mover'))
  await mover.hub.start()
  const client = await connect()
  const left = await client.query(`select 1 from ${schema}.memory_queues`)
  expect(left.rows).toEqual([])
  return { owner, mover, held, log, client }
}

test('an event that is under way while its queue moves is not begun a second time, and its lane waits for it', async () => {
  const { held, log, client } = await moveWhileOneRuns('once')
  expect(log).toEqual(['owner begins 1, attempt 1'])
  const { rows: before } = await client.query<{ until: Date }>(
    `select leased_until as until from once.runs where state = 'leased'`,
  )
  await eventually('its lease is renewed', async () => {
    const { rows } = await client.query<{ until: Date }>('select leased_until as until from once.runs')
    return Number(rows[0]?.until) > Number(before[0]?.until) + 500
  })
  held.give()
  await eventually('the lane has run', () => log.filter((line) => line.includes('ends')).length === 3)
  const events = log.map((line) => line.replace(/^\w+ /, ''))
  expect(events).toEqual([1, 2, 3].flatMap((payload) => [`begins ${payload}, attempt 1`, `ends ${payload}`]))
  await eventually('all is settled', async () => {
    const { rows } = await client.query(
      `select count(*)::int as n from once.audit where settlement = 'completed'`,
    )
    return rows[0].n === 3
  })
})

test('of a queue without keys only what is under way stays with its process when the queue moves', async () => {
  const { held, log } = await moveWhileOneRuns('loose', { orderingKey: null })
  await eventually('the others have run', () => log.filter((line) => line.includes('ends')).length === 2)
  held.give()
  await eventually('all have run', () => log.filter((line) => line.includes('ends')).length === 3)
  const begun = log.filter((line) => line.includes('begins')).map((line) => line.slice(-12))
  expect(begun.toSorted()).toEqual(['1, attempt 1', '2, attempt 1', '3, attempt 1'])
})

test('a failure of what was under way while its queue moved is counted, and waits for its time', async () => {
  const { held, log, mover, client } = await moveWhileOneRuns('fails', { fails: true })
  held.give()
  await eventually('the failure is stored', async () => {
    const { rows } = await client.query(
      `select 1 from fails.runs where state = 'deferred' and failures = 1 and due_at > now() + interval '1 minute'`,
    )
    return rows.length === 1
  })
  expect(log.filter((line) => line.includes('begins'))).toEqual(['owner begins 1, attempt 1'])
  await mover.clock.advance(3_600_000)
  await mover.drain()
  const events = log.map((line) => line.replace(/^\w+ /, ''))
  expect(events.slice(2)).toEqual([
    ...['begins 1, attempt 2', 'ends 1', 'begins 2, attempt 1', 'ends 2', 'begins 3, attempt 1', 'ends 3'],
  ])
})

test('an owner that stops hands back what was under way while its queue moved, uncounted', async () => {
  const { owner, mover, held, log, client } = await moveWhileOneRuns('stops')
  await owner.hub.stop({ graceMs: 0 })
  held.give()
  await mover.drain()
  const events = log.map((line) => line.replace(/^\w+ /, ''))
  expect(events).toContain('begins 3, attempt 1')
  const { rows } = await client.query('select sum(failures)::int as failures from stops.audit')
  expect(rows).toEqual([{ failures: 0 }])
})

test('an attempt whose queue moved is told to stop when its lease is taken, though others of its run had ended before', async () => {
  const owner = await hubs.open({ schema: 'taken' })
  const stopped = createSignal()
  let isBegun = false
  owner.hub.on('t', { ...options, concurrency: 1, storage: 'memory' }, async (event, { signal, number }) => {
    if (event.payload !== 2 || number > 1) return
    isBegun = true
    await new Promise((resolve) => signal.addEventListener('abort', resolve))
    stopped.give()
  })
  await owner.hub.start()
  const [, second] = await owner.hub.publishMany([1, 2].map((payload) => ({ type: 't', payload })))
  await eventually('the second is under way', () => isBegun)
  const mover = await hubs.open({ schema: 'taken' })
  mover.hub.on('t', options, () => undefined)
  await mover.hub.start()
  await mover.hub.reset(second?.id as number, 'test')
  await stopped.given
  await mover.drain()
})
