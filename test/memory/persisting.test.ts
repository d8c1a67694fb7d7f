import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { useHubs } from '../support/hub.ts'
import { createSignal, eventually } from '../support/signal.ts'

const hubs = useHubs('memory_persisting')
const inMemory = { name: 'm', storage: 'memory' } as const
const never = () => new Promise(() => undefined)
const toEvent = (payload: unknown) => ({ type: 't', payload })
let pool: pg.Pool

beforeAll(() => {
  pool = new pg.Pool(hubs.connection)
})
afterAll(() => pool.end())

async function rows(text: string): Promise<Record<string, unknown>[]> {
  return (await pool.query(text)).rows
}

const storedIn = async (schema: string) =>
  (await rows(`select event_id::int as id from ${schema}.memory_events order by event_id`)).map(
    ({ id }) => id,
  )

describe('the state is persisted', () => {
  test('when as many as the threshold are in memory only', async () => {
    const { hub } = await hubs.open({ schema: 'threshold' })
    hub.on('t', { ...inMemory, persistenceThreshold: 3 }, never)
    await hub.start()
    const ids = []
    for (let n = 1; n <= 3; n++) ids.push((await hub.publish(toEvent(n))).id)
    await eventually('they are stored', async () => (await storedIn('threshold')).length >= 3)
    expect(await storedIn('threshold')).toEqual(ids)
  })

  test('after a while, if anything has changed', async () => {
    const { hub } = await hubs.open({ schema: 'interval' })
    hub.on('t', inMemory, never)
    await hub.start()
    const { id } = await hub.publish(toEvent(1))
    await eventually('it is stored', async () => (await storedIn('interval')).includes(id))
    await eventually('nothing is left to persist', () => hub.memory.views[0]?.unpersisted === 0)
  })

  test('at a checkpoint, which is recorded', async () => {
    const { hub, drain } = await hubs.open({ schema: 'checkpoint' })
    hub.on('t', inMemory, ({ payload }, attempt) => {
      if (payload === 3) attempt.snooze(60_000)
      if (payload === 4) throw new Error('no')
    })
    await hub.start()
    const ids = (await hub.publishMany([1, 2, 3, 4, 5].map(toEvent))).map(({ id }) => id)
    await drain()
    const checkpoint = await hub.memory.checkpoint('m')
    expect(checkpoint).toMatchObject({ checkpointId: ids[1], eventCount: 3 })
    expect(await storedIn('checkpoint')).toEqual([ids[2], ids[3]])
    expect(await rows('select queue_id, checkpoint_id, reason from checkpoint.queue_checkpoints')).toEqual([
      { queue_id: 'm', checkpoint_id: String(ids[1]), reason: 'requested' },
    ])
    const [state] = await rows(
      `select checkpoint_id, queue_metrics, events from checkpoint.event_queue_state where id = 'm'`,
    )
    expect(state).toMatchObject({
      checkpoint_id: String(ids[1]),
      queue_metrics: { totalProcessed: 3, totalErrors: 1 },
      events: [
        { eventId: String(ids[2]), pattern: 't', payload: 3, metadata: { retryCount: 0 } },
        { eventId: String(ids[3]), pattern: 't', payload: 4, metadata: { retryCount: 1 } },
      ],
    })
  })

  test('at a graceful stop, which gives the queue up', async () => {
    const { hub } = await hubs.open({ schema: 'stop' })
    hub.on('t', { ...inMemory, concurrency: 1 }, never)
    await hub.start()
    const ids = (await hub.publishMany([1, 2].map(toEvent))).map(({ id }) => id)
    await hub.stop({ graceMs: 0 })
    expect(await storedIn('stop')).toEqual(ids)
    expect(await rows('select attempts, failures from stop.memory_events')).toEqual([
      { attempts: 0, failures: 0 },
      { attempts: 0, failures: 0 },
    ])
    expect(await rows('select token, worker from stop.memory_queues')).toEqual([
      { token: null, worker: null },
    ])
    expect(await rows('select reason from stop.queue_checkpoints')).toEqual([{ reason: 'stop' }])
  })
})

describe('a persist', () => {
  test('of one new event in a queue of 20,000 writes two rows', async () => {
    const { hub } = await hubs.open({ schema: 'constant' })
    hub.on('t', { ...inMemory, concurrency: 1, maxQueueDepth: 40_000, persistenceThreshold: 4_000 }, never)
    await hub.start()
    await hub.publish(toEvent(0))
    await hub.memory.persist()
    for (let n = 0; n < 20; n++) await hub.publishMany(Array.from({ length: 1_000 }, (_, i) => toEvent(i)))
    await hub.memory.persist()
    expect(hub.memory.views[0]?.depth).toBe(20_001)
    await recordWrites('constant')
    const { id } = await hub.publish(toEvent(0))
    await hub.memory.persist()
    const stored = 'select max(event_id)::int as id, count(*)::int as n from constant.memory_events'
    expect(await rows(stored)).toEqual([{ id, n: 20_002 }])
    const written = await rows(
      'select what, count(*)::int as n from constant.writes group by what order by what',
    )
    const [event, queue, ...others] = written
    expect(event).toEqual({ what: 'INSERT memory_events', n: 1 })
    // Once more whenever its time comes meanwhile.
    expect(queue).toMatchObject({ what: 'UPDATE memory_queues' })
    expect(queue?.n).toBeLessThan(10)
    // Every ten seconds the process says that it lives.
    const ofPresence = ['UPDATE subscriptions', 'UPDATE workers']
    expect(others.filter(({ what }) => !ofPresence.includes(String(what)))).toEqual([])
  })

  test('removes what was settled above the checkpoint at once, and what lies below it bit by bit', async () => {
    const { hub } = await hubs.open({ schema: 'compacted' })
    const held = createSignal()
    const rest = createSignal()
    let ran = 0
    hub.on('t', { ...inMemory, concurrency: 2, persistenceThreshold: 1_000 }, async ({ payload }) => {
      await held.given
      if (payload === 1_000) await rest.given
      ran++
    })
    await hub.start()
    for (let n = 0; n < 3; n++) {
      await hub.publishMany(Array.from({ length: 1_000 }, (_, i) => toEvent(n * 1_000 + i)))
    }
    await hub.memory.persist()
    held.give()
    await eventually('all but one ran', () => ran === 2_999)
    await hub.memory.persist()
    await eventually('one is left', async () => (await storedIn('compacted')).length === 1)
    rest.give()
    await eventually('all ran', () => ran === 3_000)
    await hub.stop()
    expect(await storedIn('compacted')).toEqual([])
  })

  test('keeps how often each was tried, and when it is due', async () => {
    const first = await hubs.open({ schema: 'tried' })
    first.hub.on('t', inMemory, () => {
      throw new Error('no good')
    })
    await first.hub.start()
    await first.hub.publish(toEvent(1))
    await first.drain()
    await first.hub.stop()
    expect(
      await rows('select attempts, failures, due_at > now() as waits, last_error from tried.memory_events'),
    ).toMatchObject([
      { attempts: 1, failures: 1, waits: true, last_error: expect.stringContaining('no good') },
    ])
    const second = await hubs.open({ schema: 'tried' })
    const seen: number[] = []
    second.hub.on('t', inMemory, (_, { number, failures }) => void seen.push(number, failures))
    await second.hub.start()
    await second.clock.advance(60_000)
    await second.drain()
    expect(seen).toEqual([2, 1])
  })
})

describe('a start', () => {
  test('loads what was unsettled, and records that it did', async () => {
    const first = await hubs.open({ schema: 'loaded' })
    first.hub.on('t', { ...inMemory, concurrency: 1 }, ({ payload }) => (payload === 1 ? undefined : never()))
    await first.hub.start()
    const sent = [1, 2, 3].map((payload) => ({ ...toEvent(payload), orderingKey: 'k', title: `T${payload}` }))
    const ids = (await first.hub.publishMany(sent)).map(({ id }) => id)
    await eventually('one is done', () => first.hub.memory.views[0]?.depth === 2)
    await first.hub.stop({ graceMs: 0 })

    const second = await hubs.open({ schema: 'loaded', workerId: 'second' })
    const seen: unknown[] = []
    second.hub.on('t', inMemory, ({ id, payload, title, orderingKey }, { number }) => {
      seen.push([id, payload, title, orderingKey, number])
    })
    await second.hub.start()
    await second.drain()
    expect(seen).toEqual([
      [ids[1], 2, 'T2', 'k', 1],
      [ids[2], 3, 'T3', 'k', 1],
    ])
    const columns = 'queue_id, worker, checkpoint_id, events_recovered::int as n, status'
    expect(await rows(`select ${columns} from loaded.queue_recoveries`)).toEqual([
      { queue_id: 'm', worker: 'second', checkpoint_id: String(ids[0]), n: 2, status: 'completed' },
    ])
  })

  test('fails while another process has the queue, and says who', async () => {
    const first = await hubs.open({ schema: 'taken', workerId: 'first' })
    first.hub.on('t', inMemory, () => undefined)
    await first.hub.start()
    const second = await hubs.open({ schema: 'taken', workerId: 'second' })
    second.hub.on('t', inMemory, () => undefined)
    await expect(second.hub.start()).rejects.toMatchObject({
      code: 'QUEUE_TAKEN',
      details: { queue: 'm', worker: 'first' },
    })
    await first.hub.stop()
    await second.hub.start()
    expect(await second.hub.publish(toEvent(1))).toMatchObject({ durability: 'process' })
  })

  test('takes over from a process that has gone silent, which then writes nothing more', async () => {
    const first = await hubs.open({ schema: 'silent' })
    const ran: unknown[] = []
    const held = createSignal()
    first.hub.on('t', { ...inMemory, concurrency: 1 }, async ({ payload }) => {
      ran.push(payload)
      await held.given
    })
    await first.hub.start()
    await first.hub.publishMany([1, 2].map(toEvent))
    await first.hub.memory.persist()
    // Held back a moment, so that the other finds it free.
    await rows(`update silent.memory_queues set held_until = now() - interval '1 s'`)
    const second = await hubs.open({ schema: 'silent' })
    const again: unknown[] = []
    second.hub.on('t', inMemory, ({ payload }) => void again.push(payload))
    await second.hub.start()
    await second.drain()
    expect(again).toEqual([1, 2])
    await expect(first.hub.publish(toEvent(3))).rejects.toMatchObject({ code: 'QUEUE_ELSEWHERE' })
    expect(first.hub.memory.views).toEqual([])
    held.give()
    await second.hub.memory.persist()
    await first.hub.stop()
    expect(ran).toEqual([1])
    expect(await rows('select token is not null as held from silent.memory_queues')).toEqual([{ held: true }])
    expect(await second.hub.publish(toEvent(4))).toMatchObject({ durability: 'process' })
  })

  test('with storage in the database moves what was in memory there', async () => {
    const first = await hubs.open({ schema: 'moved' })
    first.hub.on('t', { ...inMemory, concurrency: 1 }, never)
    await first.hub.start()
    const keyed = [1, 2].map((payload) => ({ ...toEvent(payload), orderingKey: 'k' }))
    await first.hub.publishMany([...keyed, ...[3, 4].map(toEvent)])
    await first.hub.stop({ graceMs: 0 })
    const second = await hubs.open({ schema: 'moved' })
    const seen: unknown[] = []
    second.hub.on('t', { name: 'm', concurrency: 1 }, ({ payload }) => void seen.push(payload))
    await second.hub.start()
    await second.drain()
    expect([...seen].sort()).toEqual([1, 2, 3, 4])
    expect(seen.indexOf(1)).toBeLessThan(seen.indexOf(2))
    expect(await rows('select 1 from moved.memory_events')).toEqual([])
    expect(await second.hub.publish(toEvent(5))).toMatchObject({ durability: 'durable' })
  })

  test('finds the culprit if one event ends its process again and again', async () => {
    const options = { ...inMemory, retry: { failuresMax: 2 } }
    const first = await hubs.open({ schema: 'culprit' })
    first.hub.on('t', { ...options, concurrency: 1 }, never)
    await first.hub.start()
    const ids = (await first.hub.publishMany([1, 2, 3].map(toEvent))).map(({ id }) => id)
    await first.hub.stop({ graceMs: 0 })
    // As if two processes had vanished in a row, and a third with the second event begun and charged once.
    await rows(`update culprit.memory_queues set token = 1, worker = 'x', held_until = now(), crashes = 2`)
    await rows(`update culprit.memory_events set is_begun = true, failures = 1 where event_id = ${ids[1]}`)
    const second = await hubs.open({ schema: 'culprit' })
    const begun: unknown[] = []
    second.hub.on('t', options, async ({ id }) => {
      const [row] = await rows(`select is_begun from culprit.memory_events where event_id = ${id}`)
      begun.push([id, row?.is_begun])
    })
    await second.hub.start()
    await second.drain()
    // Each alone, and marked before it begins.
    expect(begun).toEqual([
      [ids[0], true],
      [ids[2], true],
    ])
    const { deadLetters } = await second.hub.deadLetters()
    expect(deadLetters).toMatchObject([{ eventId: ids[1], failures: 2, reason: 'the lease expired' }])
    await second.hub.memory.persist()
    expect(await rows('select crashes from culprit.memory_queues')).toEqual([{ crashes: 0 }])
  })
})

test('of suspects that are tried one by one only the one under way could be charged', async () => {
  const first = await hubs.open({ schema: 'innocent' })
  first.hub.on('t', { ...inMemory, concurrency: 1 }, never)
  await first.hub.start()
  await first.hub.publishMany([1, 2, 3].map(toEvent))
  await first.hub.stop({ graceMs: 0 })
  await rows(`update innocent.memory_queues set token = 1, worker = 'x', held_until = now(), crashes = 2`)
  const second = await hubs.open({ schema: 'innocent' })
  const marked: unknown[] = []
  second.hub.on('t', inMemory, async () => {
    // What the checkpoint covers is never loaded again.
    marked.push(
      ...(await rows(`select count(*)::int as marked
        from innocent.memory_events m join innocent.memory_queues q on q.subscription = m.subscription
        where m.is_begun and m.event_id > q.checkpoint`)),
    )
  })
  await second.hub.start()
  await second.drain()
  expect(marked).toEqual([{ marked: 1 }, { marked: 1 }, { marked: 1 }])
})

test('a queue whose subscription has ended is forgotten', async () => {
  const { hub } = await hubs.open({ schema: 'ended' })
  hub.on('t', inMemory, never)
  await hub.start()
  await hub.publishMany([1, 2].map(toEvent))
  await hub.memory.persist()
  await hub.unsubscribe('m')
  await eventually('it is gone', () => hub.memory.views.length === 0)
  await eventually('nothing is left', async () => (await storedIn('ended')).length === 0)
  expect(await hub.publish(toEvent(3))).toMatchObject({ deliveries: 0, durability: 'durable' })
})

test('its figures are those of every queue, and how much a crash would lose', async () => {
  const { hub, drain } = await hubs.open({ schema: 'figures' })
  hub.on('t', { ...inMemory, concurrency: 1 }, ({ payload }) => (payload === 1 ? undefined : never()))
  await hub.start()
  await hub.publish(toEvent(1))
  await drain()
  await hub.publishMany([2, 3, 4].map(toEvent))
  await eventually('one is out', () => hub.memory.views[0]?.figures.leased !== 0)
  await hub.memory.persist()
  const text = await hub.scrape()
  expect(text).toContain('posthorn_attempts_total{subscription="m",settlement="complete"} 1')
  expect(text).toContain('posthorn_memory_unpersisted{subscription="m"} 0')
  const [, depth] = /posthorn_queue_depth\{subscription="m"\} (\d+)/.exec(text) ?? []
  const [, leased] = /posthorn_queue_leased\{subscription="m"\} (\d+)/.exec(text) ?? []
  expect(Number(depth) + Number(leased)).toBe(3)
  expect(Number(/posthorn_memory_persist_seconds_count (\d+)/.exec(text)?.[1])).toBeGreaterThan(0)
  expect(
    await rows(
      `select figures.queue_depth(no, 100)::int as depth from figures.subscriptions where name = 'm'`,
    ),
  ).toEqual([{ depth: 3 }])
})

/** From now on every row that is written in a schema is in its table `writes`. */
async function recordWrites(schema: string): Promise<void> {
  await rows(`create table ${schema}.writes (what text);
    create function ${schema}.record_write() returns trigger language plpgsql as $$
    begin
      insert into ${schema}.writes values (tg_op || ' ' || tg_table_name);
      return null;
    end $$`)
  const tables = await rows(`select tablename as name from pg_tables where schemaname = '${schema}'`)
  for (const { name } of tables.filter((table) => table.name !== 'writes')) {
    await rows(`create trigger recorded after insert or update or delete on ${schema}.${name}
      for each row execute function ${schema}.record_write()`)
  }
}

test('a payload that no jsonb can hold stands in the document as its text, a long one not at all, and both are loaded as they were', async () => {
  const first = await hubs.open({ schema: 'odd' })
  first.hub.on('t', { ...inMemory, concurrency: 1 }, never)
  await first.hub.start()
  const texts = ['"\\u0000"', '1e400000', `"${'x'.repeat(70_000)}"`, '{"a":1, "a" : 2}']
  for (const payloadText of texts) await first.hub.publish({ type: 't', payloadText })
  await first.hub.stop({ graceMs: 0 })
  const [state] = await rows(`select events from odd.event_queue_state where id = 'm'`)
  const { events } = state as { events: { payload: unknown }[] }
  expect(events.map(({ payload }) => payload)).toEqual(['"\\u0000"', '1e400000', null, { a: 2 }])

  const second = await hubs.open({ schema: 'odd' })
  const seen: string[] = []
  second.hub.on('t', { ...inMemory, concurrency: 1 }, ({ payloadText }) => void seen.push(payloadText))
  await second.hub.start()
  await second.drain()
  expect(seen).toEqual(texts)
})

test('a failure that happens while its event is first being written is not forgotten by a stop', async () => {
  const first = await hubs.open({ schema: 'failing' })
  let failed = 0
  const failing = createSignal()
  first.hub.on('t', { ...inMemory, retry: { baseMs: 60_000 } }, async () => {
    await failing.given
    failed++
    throw new Error('no')
  })
  await first.hub.start()
  await first.hub.publish(toEvent(1))
  const client = await pool.connect()
  try {
    // The first persist waits for this row until the attempt has failed.
    await client.query('begin')
    await client.query('select from failing.memory_queues for update')
    const persisted = first.hub.memory.persist()
    await eventually('the persist waits', async () => {
      const waiting = await rows(`select 1 from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query like '%memory_queues%'`)
      return waiting.length > 0
    })
    failing.give()
    await eventually('the attempt has failed', () => failed === 1)
    await client.query('commit')
    await persisted
  } finally {
    client.release()
  }
  await first.hub.stop()
  const [row] = await rows('select attempts, failures, due_at > now() as waits from failing.memory_events')
  expect(row).toEqual({ attempts: 1, failures: 1, waits: true })
})

test('a graceful stop while a suspect is under way is charged to nobody', async () => {
  const options = { ...inMemory, concurrency: 1, retry: { failuresMax: 3 } }
  const first = await hubs.open({ schema: 'stopped' })
  first.hub.on('t', options, never)
  await first.hub.start()
  await first.hub.publish(toEvent(1))
  await first.hub.stop({ graceMs: 0 })
  // As if two processes had vanished in a row.
  await rows(`update stopped.memory_queues set token = 1, worker = 'x', held_until = now(), crashes = 2`)
  for (let start = 0; start < 4; start++) {
    const { hub } = await hubs.open({ schema: 'stopped' })
    let seen: unknown
    hub.on('t', options, (_, attempt) => {
      seen = { number: attempt.number, failures: attempt.failures }
      return never()
    })
    await hub.start()
    await eventually('the suspect is under way', () => seen !== undefined)
    expect(seen).toEqual({ number: 1, failures: 0 })
    await hub.stop({ graceMs: 0 })
  }
  expect(await rows('select failures, is_begun from stopped.memory_events')).toEqual([
    { failures: 0, is_begun: false },
  ])
})
