import pg from 'pg'
import type { Database } from '../../src/db/database.ts'
import { migrate } from '../../src/db/migrate.ts'
import type { CallerTransaction } from '../../src/domain/caller-transaction.ts'
import { defineSubscription, type SubscriptionOptions } from '../../src/domain/subscription.ts'
import { moveClock } from '../../src/engine/clock.ts'
import { upsertSubscription } from '../../src/subscriptions/subscriptions.ts'
import { createTestDatabase } from '../support/database.ts'
import type { SeededBug } from './seeded-bugs.ts'

/** What the model must know of a subscription. */
export interface Policy {
  readonly no: number
  readonly types: readonly string[]
  readonly via: 'handler' | 'pull'
  readonly failuresMax: number
  readonly blocks: boolean
  readonly keyConcurrency: number | null
  readonly maxConcurrency: number | null
}

export interface OpenTransaction extends CallerTransaction {
  end(how: 'commit' | 'rollback'): Promise<void>
}

/** A real database for one run after the other, emptied in between. */
export interface Stage {
  readonly db: Database
  readonly policies: readonly Policy[]
  /** Empties all tables, sets the clock back, and returns the database's time. */
  clear(): Promise<number>
  begin(): Promise<OpenTransaction>
  close(): Promise<void>
}

const wanted: [via: Policy['via'], types: string[], options: SubscriptionOptions][] = [
  ['handler', ['a.*'], { name: 'plain', retry: { failuresMax: 2 } }],
  ['handler', ['a.b', 'b'], { name: 'blocking', retry: { failuresMax: 2 }, onExhausted: 'block' }],
  ['handler', ['b', 'g'], { name: 'gated', retry: { failuresMax: 2 }, keyConcurrency: 1 }],
  ['pull', ['l', 'a.c'], { name: 'limited', retry: { failuresMax: 3 }, maxConcurrency: 2 }],
]

/** Of the work queue, as the migration creates it. */
const workFailuresMax = 3

export async function openStage(bug?: SeededBug): Promise<Stage> {
  const database = await createTestDatabase('simulation')
  const real = await database.open()
  await migrate(real)
  // What is tested here does not depend on the disk.
  await real.query(`alter database ${database.database} set synchronous_commit = off`)
  await bug?.prepare?.(real)
  const policies = [workPolicy, ...(await createSubscriptions(real))]
  const idle: pg.Client[] = []
  const clients: pg.Client[] = []
  return {
    db: bug?.wrap?.(real) ?? real,
    policies,
    async clear() {
      await moveClock(real, 0)
      await real.query(emptied.map((table) => `delete from ${real.schema}.${table}`).join(';'))
      const { rows } = await real.query<{ now: number }>(
        'select extract(epoch from now())::float8 * 1000 as now',
      )
      return Math.round(rows[0]?.now ?? 0)
    },
    async begin() {
      let client = idle.pop()
      if (client === undefined) {
        client = new pg.Client({ ...database.connection, lock_timeout: 5_000 })
        clients.push(client)
        await client.connect()
      }
      return beginOn(client, idle)
    },
    async close() {
      await Promise.all(clients.map((client) => client.end()))
      await database.drop()
    },
  }
}

const emptied = [
  'queue_tallies',
  'queue_counters',
  'events',
  'idempotency_keys',
  'inbox',
  'lane_queue',
  'runs',
  'ready_tags',
  'audit',
  'dead_letters',
  'workers',
]

const workPolicy: Policy = {
  no: 0,
  types: [],
  via: 'pull',
  failuresMax: workFailuresMax,
  blocks: false,
  keyConcurrency: null,
  maxConcurrency: null,
}

async function createSubscriptions(db: Database): Promise<Policy[]> {
  const policies: Policy[] = []
  for (const [via, types, options] of wanted) {
    const { subscription } = await upsertSubscription(db, defineSubscription(via, types, options))
    const { no, retry, onExhausted, keyConcurrency, maxConcurrency } = subscription
    const { failuresMax } = retry
    policies.push({
      no,
      types,
      via,
      failuresMax,
      blocks: onExhausted === 'block',
      keyConcurrency,
      maxConcurrency,
    })
  }
  return policies
}

async function beginOn(client: pg.Client, idle: pg.Client[]): Promise<OpenTransaction> {
  await client.query('begin')
  return {
    query: (text, values) => client.query(text, values as unknown[]),
    async end(how) {
      await client.query(how)
      idle.push(client)
    },
  }
}
