import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { createPosthorn } from '../../../dist/index.js'
import { startProcess } from './processes.js'
import { monotonicUs, openRecorder, readHistory } from './recorder.js'

let worlds = 0

/**
 * One schema, one history file, and the processes that work on them. The hub of the world itself publishes
 * and looks; it handles nothing.
 */
export async function openWorld({ connection, name, options = {} }) {
  const schema = `crash_${name}_${process.pid}_${++worlds}`.replaceAll('-', '_')
  const directory = mkdtempSync(join(tmpdir(), 'posthorn-crash-'))
  const path = join(directory, 'history.jsonl')
  const pool = new pg.Pool({ ...connection, max: 40 })
  pool.on('error', () => undefined) // a database that is killed on purpose
  const hub = await createPosthorn({
    ...{ database: connection, schema, log: false, upkeep: false },
    ...options,
  })
  const processes = new Set()
  let started = 0

  const world = {
    connection,
    schema,
    hub,
    pool,
    record: openRecorder(path),
    history: () => readHistory(path),
    /** @param {object} config of workers/worker.js, without what every worker of the world shares */
    async startWorker(config) {
      return world.startProcess('worker.js', config)
    },
    async startProcess(file, config) {
      const workerId = `${schema}.${++started}`
      const child = await startProcess(file, {
        database: connection,
        schema,
        record: path,
        workerId,
        ...config,
      })
      processes.add(child)
      void child.ended.then(() => processes.delete(child))
      return child
    },
    async query(text, values) {
      return (await pool.query(text.replaceAll('__schema__', schema), values)).rows
    },
    /** Deliveries that a worker holds a lease of, as the database sees it. */
    async heldBy(workerName) {
      const [row] = await world.query(
        `select coalesce(sum(cardinality(r.event_ids)), 0)::int as held
        from __schema__.runs r join __schema__.workers w on w.no = r.worker
        where r.state = 'leased' and w.name = $1`,
        [workerName],
      )
      return row.held
    },
    /** Waits a moment for the worker to hold a lease, so that a blow to it hits one. */
    async untilHolding(workerName) {
      for (let asked = 0; asked < 50 && (await world.heldBy(workerName)) === 0; asked++) await delay(10)
    },
    /** Waits until nothing is owed to handlers any more; takes back ended leases meanwhile. */
    async untilEmpty(standstillMsMax) {
      let settled = -1
      let movedAt = monotonicUs()
      for (;;) {
        await hub.sweep()
        const [left] = await world.query(
          `select (select count(*) from __schema__.runs)::int as runs,
            (select count(*) from __schema__.lane_queue)::int as queued,
            (select count(*) from __schema__.inbox)::int as inbox,
            (select coalesce(max(id), 0) from __schema__.audit)::int as settled`,
        )
        if (left.runs + left.queued + left.inbox === 0) return
        if (left.settled !== settled) movedAt = monotonicUs()
        settled = left.settled
        if (monotonicUs() > movedAt + standstillMsMax * 1000) {
          const runs = await world.query('select * from __schema__.runs order by id limit 3')
          throw new Error(`Nothing moves: ${JSON.stringify(left)}, such as ${JSON.stringify(runs)}`)
        }
        await delay(100)
      }
    },
    /** Stops every process and forgets the schema. */
    async close() {
      for (const child of processes) child.signal('SIGKILL')
      await Promise.all([...processes].map((child) => child.ended))
      await hub.stop({ graceMs: 0 })
      await world.query('drop schema __schema__ cascade')
      await pool.end()
      rmSync(directory, { recursive: true, force: true })
    },
  }
  return world
}

/** Sweeps as upkeep does, but often, so that ended leases are taken back without delay. */
export function sweepOften(hub, everyMs = 150) {
  let going = true
  const done = (async () => {
    while (going) {
      // A database that is down for the moment is what some scenarios are about.
      await hub.sweep().catch(() => undefined)
      await delay(everyMs)
    }
  })()
  return async () => {
    going = false
    await done
  }
}
