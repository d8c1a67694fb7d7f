import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Attempt } from '../../src/consume/attempt.ts'
import { useHubs } from '../support/hub.ts'
import { createSignal, eventually } from '../support/signal.ts'

const hubs = useHubs('complete_in')
/** One counted failure buries. */
const strict = { kind: 'fixed', delayMs: 1, failuresMax: 1 } as const
const levels = ['read committed', 'repeatable read', 'serializable'] as const
const storages = ['database', 'memory'] as const
let pool: pg.Pool

beforeAll(async () => {
  pool = new pg.Pool({ ...hubs.connection, max: 8 })
  await pool.query('create table effects (test text, event_id bigint)')
  await pool.query('create table counters (name text primary key, n int not null)')
})
afterAll(() => pool.end())

/** One transaction, rolled back if its work throws. */
async function inTransaction(level: string, work: (client: pg.PoolClient) => Promise<void>): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query(`begin isolation level ${level}`)
    await work(client)
    await client.query('commit')
  } catch (error) {
    await client.query('rollback')
    throw error
  } finally {
    client.release()
  }
}

async function effectsOf(name: string): Promise<number[]> {
  const text = 'select event_id::int as id from effects where test = $1 order by event_id'
  return (await pool.query(text, [name])).rows.map(({ id }) => id)
}

function addEffect(client: pg.PoolClient, name: string, eventId: number) {
  return client.query('insert into effects values ($1, $2)', [name, eventId])
}

describe.each(levels)('in a transaction that is %s', (level) => {
  test('completeIn, called first, gives every event one effect, and buries none', async () => {
    const name = `first ${level}`
    const { hub, clock, drain } = await hubs.open()
    hub.on('t', { name: 'n', concurrency: 4, retry: strict }, ({ id }, attempt) =>
      inTransaction(level, async (client) => {
        await attempt.completeIn(client)
        await addEffect(client, name, id)
      }),
    )
    await hub.start()
    const many = Array.from({ length: 20 }, (_, n) => (n % 2 ? { orderingKey: `k${n % 3}` } : {}))
    const published = await hub.publishMany(many.map((more) => ({ type: 't', payload: 1, ...more })))
    await drain(30_000)
    // Transactions that are serializable may have failed because of each other: they are tried again.
    while ((await hub.queues.get('n')).depth > 0) {
      await clock.advance(10_000)
      await drain(30_000)
    }
    expect(await effectsOf(name)).toEqual(published.map(({ id }) => id))
    expect((await hub.deadLetters()).deadLetters).toEqual([])
  })

  test('nobody takes the event over while the transaction is open, though the lease has ended', async () => {
    const name = `open ${level}`
    const { hub, clock, drain } = await hubs.open()
    const completed = createSignal()
    const mayCommit = createSignal()
    let attempts = 0
    hub.on('t', { name: 'n', leaseMs: 1_000, retry: strict }, ({ id }, attempt) => {
      attempts++
      return inTransaction(level, async (client) => {
        await attempt.completeIn(client)
        await addEffect(client, name, id)
        completed.give()
        await mayCommit.given
      })
    })
    await hub.start()
    const { id } = await hub.publish({ type: 't', payload: 1 })
    await completed.given
    await clock.advance(60_000)
    mayCommit.give()
    await drain()
    expect(await effectsOf(name)).toEqual([id])
    expect(attempts).toBe(1)
  })

  test('an attempt whose lease was taken from it leaves no effect', async () => {
    const name = `taken ${level}`
    const { hub, drain } = await hubs.open()
    const begun = createSignal()
    const wasTaken = createSignal()
    const gaveUp = createSignal()
    let refusal: unknown
    hub.on('t', { name: 'n', concurrency: 2, retry: strict }, async ({ id }, attempt) => {
      const complete = () =>
        inTransaction(level, async (client) => {
          // Its snapshot is from before.
          await addEffect(client, name, -1)
          begun.give()
          await wasTaken.given
          await attempt.completeIn(client)
        })
      if (attempt.number === 1) {
        refusal = await complete().catch((error: unknown) => error)
        gaveUp.give()
        return
      }
      await inTransaction('read committed', async (client) => {
        await attempt.completeIn(client)
        await addEffect(client, name, id)
      })
      wasTaken.give()
    })
    await hub.start()
    const { id } = await hub.publish({ type: 't', payload: 1 })
    await begun.given
    // What has begun is known to the database after a moment.
    await eventually('it was taken', async () => (await hub.reset(id, 'test')) === 1)
    await gaveUp.given
    await drain()
    expect(refusal).toMatchObject({ code: 'LEASE_LOST' })
    expect(await effectsOf(name)).toEqual([id])
  })
})

describe.each(['repeatable read', 'serializable'])('in a transaction that is %s', (level) => {
  test.each(storages)(
    'completeIn after another statement is refused by name, and buries nothing: %s',
    async (storage) => {
      const name = `stale ${level} ${storage}`
      const { hub, clock, drain } = await hubs.open()
      const errors: unknown[] = []
      const failures: number[] = []
      const completeLate = (attempt: Attempt) =>
        inTransaction(level, async (client) => {
          await addEffect(client, name, 0)
          await attempt.completeIn(client)
        })
      hub.on('t', { name: 'n', storage, retry: strict }, async ({ id }, attempt) => {
        failures.push(attempt.failures)
        if (attempt.number === 1) return completeLate(attempt)
        // An attempt that says nothing of the refusal costs no failure either.
        if (attempt.number === 2) return completeLate(attempt).catch((error) => void errors.push(error))
        await inTransaction(level, async (client) => {
          await attempt.completeIn(client)
          await addEffect(client, name, id)
        })
      })
      await hub.start()
      const { id } = await hub.publish({ type: 't', payload: 1 })
      await drain()
      await clock.advance(10_000)
      await drain()
      await clock.advance(10_000)
      await drain()
      expect(errors).toMatchObject([{ code: 'STALE_SNAPSHOT', details: { isolation: level } }])
      expect(failures).toEqual([0, 0, 0])
      expect(await effectsOf(name)).toEqual([id])
      expect((await hub.deadLetters()).deadLetters).toEqual([])
    },
  )

  test('a serialization failure after completeIn costs no failure', async () => {
    const name = `conflict ${level}`
    await pool.query('insert into counters values ($1, 0)', [name])
    const { hub, clock, drain } = await hubs.open()
    const failures: number[] = []
    const add = 'update counters set n = n + 1 where name = $1'
    hub.on('t', { name: 'n', retry: strict }, ({ id }, attempt) => {
      failures.push(attempt.failures)
      return inTransaction(level, async (client) => {
        await attempt.completeIn(client)
        // Somebody else changes the row after the snapshot was taken.
        if (attempt.number === 1) await pool.query(add, [name])
        await client.query(add, [name])
        await addEffect(client, name, id)
      }).catch((error) => {
        // As libraries do that wrap what the database says.
        throw new Error('The transaction failed', { cause: error })
      })
    })
    await hub.start()
    const { id } = await hub.publish({ type: 't', payload: 1 })
    await drain()
    expect(await effectsOf(name)).toEqual([])
    await clock.advance(10_000)
    await drain()
    expect(failures).toEqual([0, 0])
    expect(await effectsOf(name)).toEqual([id])
  })
})

describe.each(storages)('a transaction that commits after its attempt has ended: %s', (storage) => {
  const threw = async () => {
    throw new Error('the answer to COMMIT was lost')
  }
  const endings: [how: string, failuresMax: number, end: () => Promise<void>][] = [
    ['returned', 2, async () => undefined],
    ['threw', 2, threw],
    ['threw for the last time', 1, threw],
    ['timed out', 2, () => new Promise(() => undefined)],
  ]

  test.each(endings)('its lane goes on, and it is told as completed: %s', async (how, failuresMax, end) => {
    const { hub, drain } = await hubs.open()
    const client = await pool.connect()
    const seen: unknown[] = []
    const settled: string[] = []
    const isCompleting = createSignal()
    hub.events.on('settled', ({ settlement }) => void settled.push(settlement))
    // Only the one that is to time out may do so, however busy the machine is.
    const timeoutMs = how === 'timed out' ? 3_000 : 600_000
    const options = { name: 'n', storage, timeoutMs, retry: { ...strict, failuresMax } } as const
    hub.on('t', options, async ({ payload }, attempt) => {
      seen.push(payload)
      if (payload !== 0) return
      await client.query('begin')
      await attempt.completeIn(client)
      isCompleting.give()
      await end()
    })
    await hub.start()
    await hub.publishMany([0, 1, 2].map((payload) => ({ type: 't', orderingKey: 'k', payload })))
    await isCompleting.given
    // The settlement of the attempt waits for the transaction.
    const waiting = `select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
    await eventually('it is being settled', async () => (await pool.query(waiting)).rowCount !== 0)
    await client.query('commit')
    client.release()
    await eventually('the lane has gone on', () => settled.length === 3)
    await drain()
    expect(seen).toEqual([0, 1, 2])
    expect(settled).toEqual(['complete', 'complete', 'complete'])
    expect((await hub.deadLetters()).deadLetters).toEqual([])
  })
})

test.each(storages)(
  'a completeIn that was on its way as its attempt timed out is refused or counts, and runs no second time after it counted: %s',
  async (storage) => {
    const { hub, clock, drain } = await hubs.open()
    const client = await pool.connect()
    const aborted = createSignal()
    const ended = createSignal()
    const attempts: number[] = []
    const committed: number[] = []
    hub.on(
      't',
      { name: 'n', storage, timeoutMs: 100, retry: { ...strict, failuresMax: 3 } },
      async (_, attempt) => {
        attempts.push(attempt.number)
        attempt.signal.addEventListener('abort', () => aborted.give())
        if (attempt.number > 1) return
        // The completing statement is sent after the attempt has timed out.
        const late = {
          query: async (text: string, values?: unknown[]) => {
            if (text.includes('insert') || text.includes('update')) {
              await aborted.given
              await delay(200)
            }
            return client.query(text, values)
          },
        }
        await client.query('begin')
        const isCompleted = await attempt.completeIn(late).then(
          () => true,
          () => false,
        )
        await client.query(isCompleted ? 'commit' : 'rollback')
        if (isCompleted) committed.push(attempt.number)
        ended.give()
      },
    )
    await hub.start()
    await hub.publish({ type: 't', payload: 1, orderingKey: 'k' })
    await ended.given
    client.release()
    await clock.advance(10_000)
    await drain()
    // Whichever came first counts, and only that one.
    expect(attempts).toEqual(committed.length === 1 ? [1] : [1, 2])
    expect((await hub.deadLetters()).deadLetters).toEqual([])
  },
)

describe.each(storages)('completeIn, called twice: %s', (storage) => {
  const twice: [how: string, work: (client: pg.PoolClient, attempt: Attempt) => Promise<void>][] = [
    [
      'in one transaction',
      async (client, attempt) => {
        await attempt.completeIn(client)
        await attempt.completeIn(client)
      },
    ],
    [
      'around a savepoint that is rolled back',
      async (client, attempt) => {
        await client.query('savepoint s')
        await attempt.completeIn(client)
        await client.query('rollback to savepoint s')
        await attempt.completeIn(client)
      },
    ],
    [
      'in a transaction that is rolled back, and in the next',
      async (client, attempt) => {
        await attempt.completeIn(client)
        await client.query('rollback')
        await client.query('begin isolation level repeatable read')
        await attempt.completeIn(client)
      },
    ],
    [
      'in one transaction that keeps its snapshot',
      async (client, attempt) => {
        await client.query('rollback')
        await client.query('begin isolation level repeatable read')
        await attempt.completeIn(client)
        await attempt.completeIn(client)
      },
    ],
  ]

  test.each(twice)('does not wait for itself %s', async (how, work) => {
    const { hub, drain } = await hubs.open()
    hub.on('t', { name: 'n', storage, retry: strict }, ({ id }, attempt) =>
      inTransaction('read committed', async (client) => {
        // Whoever waits for a lock of this transaction waits for ever.
        await work(client, attempt)
        await addEffect(client, `${how} ${storage}`, id)
      }),
    )
    await hub.start()
    const { id } = await hub.publish({ type: 't', payload: 1 })
    await drain(60_000)
    expect(await effectsOf(`${how} ${storage}`)).toEqual([id])
  })

  test('is refused in a second transaction after the first has committed', async () => {
    const name = `second ${storage}`
    const { hub, drain } = await hubs.open()
    const ended = createSignal()
    let refusal: unknown
    hub.on('t', { name: 'n', storage, retry: strict }, async ({ id }, attempt) => {
      const complete = () =>
        inTransaction('read committed', async (client) => {
          await attempt.completeIn(client)
          await addEffect(client, name, id)
        })
      await complete()
      refusal = await complete().catch((error: unknown) => error)
      ended.give()
    })
    await hub.start()
    const { id } = await hub.publish({ type: 't', payload: 1 })
    await ended.given
    await drain()
    expect(refusal).toMatchObject({ code: 'LEASE_LOST' })
    expect(await effectsOf(name)).toEqual([id])
  })
})

test('a reset does not wait for a transaction that completes the event: it says that the lease is busy', async () => {
  const { hub, drain } = await hubs.open()
  const completed = createSignal()
  const mayCommit = createSignal()
  hub.on('t', { name: 'n', concurrency: 1 }, (_, attempt) =>
    inTransaction('read committed', async (client) => {
      await attempt.completeIn(client)
      completed.give()
      await mayCommit.given
    }),
  )
  await hub.start()
  // Of two that were leased together the first gets a run of its own, which is known to have begun.
  const [first] = await hub.publishMany([1, 2].map((payload) => ({ type: 't', payload })))
  await completed.given
  // The transaction ends only after the answer.
  const answer = await hub.reset((first as { id: number }).id, 'test').catch((error: unknown) => error)
  mayCommit.give()
  await drain()
  expect(answer).toMatchObject({ code: 'LEASE_BUSY' })
})
