import { expect } from 'vitest'
import type { Queryable } from '../../src/db/database.ts'
import { migrate } from '../../src/db/migrate.ts'
import type { PostgresDatabase } from '../../src/db/postgres.ts'
import type { LeasedDelivery } from '../../src/domain/delivery.ts'
import { type EventInput, parseEvent } from '../../src/domain/event.ts'
import { Admitter } from '../../src/engine/admit.ts'
import { lease } from '../../src/engine/lease.ts'
import { publish } from '../../src/engine/publish.ts'
import { type SettleRequest, settle } from '../../src/engine/settle.ts'
import { registerWorker } from '../../src/workers/workers.ts'
import { useDatabase } from './database.ts'

/** An engine without any process around it: each step is taken by hand. */
export interface Engine {
  readonly db: PostgresDatabase
  /** A handler subscription; returns its number. */
  subscribe(
    name: string,
    types: readonly string[],
    options?: { onExhausted?: 'skip' | 'block' },
  ): Promise<number>
  publish(...events: readonly Partial<EventInput>[]): Promise<number[]>
  /** Leases up to 100 deliveries of a subscription and lets them all begin. */
  lease(
    subscription: number,
    options?: { begins?: 'granted' | 'reported'; leaseMs?: number },
  ): Promise<LeasedDelivery[]>
  settle(delivery: LeasedDelivery, outcome?: Partial<SettleRequest>): Promise<void>
  moveClock(ms: number): Promise<void>
}

/**
 * One database per test file. Each engine has a fresh schema, or one that was emptied, which is quicker, but has rows that a
 * test would find who counts what is read.
 */
export function useEngines(
  name: string,
  { schemas }: { schemas: 'fresh' | 'emptied' } = { schemas: 'fresh' },
): () => Promise<Engine> {
  const database = useDatabase(name, { schemas: schemas === 'fresh' ? 'per test' : 2 })
  return async () => {
    if (schemas === 'emptied') return engineOn((await database.takePlace()).db)
    const db = await database.open({ schema: database.freshSchema(), poolMax: 2 })
    await migrate(db)
    return engineOn(db)
  }
}

async function engineOn(db: PostgresDatabase): Promise<Engine> {
  let tokens = 0
  let clockMs = 0
  const admitter = new Admitter(db)
  const worker = await registerWorker(db, 'host:1')
  return {
    db,
    async subscribe(name, types, { onExhausted = 'skip' } = {}) {
      const { rows } = await db.query<{ no: number }>(
        `insert into ${db.schema}.subscriptions (id, name, via, types, on_exhausted, retry, lease_ms)
        values (${db.schema}.uuid_v7(), $1, 'handler', $2, $3, '{"kind": "fixed", "delayMs": 1000, "failuresMax": 5}', 30000)
        returning no`,
        [name, types, onExhausted],
      )
      const no = rows[0]?.no as number
      for (const type of types) {
        await db.query(`insert into ${db.schema}.routes (pattern, subscription) values ($1, $2)`, [type, no])
      }
      return no
    },
    async publish(...events) {
      const parsed = events.map((event) => parseEvent({ type: 'note', payload: 1, ...event } as EventInput))
      const { published } = await publish(db, { events: parsed, wake: null })
      return published.map(({ id }) => id)
    },
    async lease(subscription, { begins = 'granted', leaseMs = 30_000 } = {}) {
      await admitter.admit()
      const runs = await lease(db, {
        wants: [
          {
            subscription,
            eventsMax: 100,
            runsMax: 100,
            suspects: true,
            leaseMs,
            laneMax: 100,
            limited: false,
          },
        ],
        token: ++tokens,
        worker,
        begins,
        tags: null,
      })
      return runs.flatMap((run) => run.deliveries)
    },
    async settle({ run, event, failures }, outcome = {}) {
      const request: SettleRequest = {
        runId: run.id,
        token: run.token,
        eventId: event.id,
        settlement: 'completed',
        afterMs: null,
        failures:
          outcome.settlement === 'retried' || outcome.settlement === 'buried' ? failures + 1 : failures,
        reason: null,
        startedAfterMs: null,
        executionMs: null,
        statusCode: null,
        ...outcome,
      }
      expect(await settle(db, [request])).toEqual([])
    },
    async moveClock(ms) {
      clockMs += ms
      await db.query(`create or replace function ${db.schema}.clock() returns timestamptz
        language sql stable as 'select statement_timestamp() + ${clockMs} * interval ''1 ms'''`)
    },
  }
}

export function only<T>(items: readonly T[]): T {
  expect(items).toHaveLength(1)
  return items[0] as T
}

/** Until nothing is left at the door. */
export async function admitAll({ db }: Engine, admitter = new Admitter(db)): Promise<void> {
  while (!(await admitter.admit()).drained);
}

/** The events of a lane in the order in which they will be handled: of the run that is out, then of what waits behind it. */
export async function laneOf({ db }: Engine, no: number, key: string): Promise<number[]> {
  const { rows } = await db.query<{ ids: number[] }>(
    `select array_agg(u.id::int order by l.position, u.place) as ids
    from (
      select 0 as position, r.event_ids from ${db.schema}.runs r
      where r.subscription = $1 and r.ordering_key = $2 and r.state = 'ready'
      union all
      select q.position, q.event_ids from ${db.schema}.lane_queue q where q.subscription = $1 and q.ordering_key = $2
    ) as l
    cross join lateral unnest(l.event_ids) with ordinality as u(id, place)`,
    [no, key],
  )
  return rows[0]?.ids ?? []
}

/** Leases and completes until nothing is left; the events in the order in which they came. */
export async function workOff(engine: Engine, subscription: number): Promise<number[]> {
  const order: number[] = []
  for (;;) {
    const leased = await engine.lease(subscription)
    if (leased.length === 0) return order
    for (const delivery of leased) {
      order.push(delivery.event.id)
      await engine.settle(delivery)
    }
  }
}

/** What scans of this transaction have read of a table so far: index entries, and rows, visible or not. */
export async function rowsRead(tx: Queryable, table: string): Promise<number> {
  const { rows } = await tx.query<{ read: number }>(
    `select (seq_tup_read + coalesce(idx_tup_fetch, 0)
      + (select coalesce(sum(pg_stat_get_xact_tuples_returned(i.indexrelid)), 0) from pg_index i where i.indrelid = t.relid))::int
      as read
    from pg_stat_xact_user_tables t where relid = '${table}'::regclass`,
  )
  return rows[0]?.read ?? 0
}
