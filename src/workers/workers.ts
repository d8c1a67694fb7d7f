import type { WorkerIdentity } from '../core/core.ts'
import { checkPaging, type Paging, pagingOptions } from '../core/paging.ts'
import { readAtOnce } from '../core/reader.ts'
import { textArray } from '../db/array.ts'
import type { Connection, Database } from '../db/database.ts'
import { badOption } from '../domain/bad-value.ts'
import { checkOptions } from '../domain/known-names.ts'
import { followPromotion } from '../engine/promotions.ts'
import {
  countStatement,
  countStatesStatement,
  listPageStatement,
  listStatement,
  registerStatement,
  touchManyStatement,
  touchStatement,
} from './worker-statements.ts'

export interface Worker {
  readonly name: string
  readonly seenAt: Date
  /** Deliveries it is attempting now. */
  readonly inFlight: number
  /** It has been silent for 30 s, or has let a lease end. */
  readonly stale: boolean
  /** Which of the two came first, and when; null: it is not stale. */
  readonly staleReason: StaleReason | null
  readonly staleSince: Date | null
}

export type StaleReason = 'silent' | 'lapsed_lease'
export type WorkerState = 'alive' | 'stale'

export interface WorkerFilter extends Paging {
  readonly state?: WorkerState
}

type Reader = Connection & { readonly schema: string }

/** The number of a worker in leases and audit records. Each call also records that the worker is alive. */
export async function registerWorker(db: Reader, name: string): Promise<number> {
  const [known] = await db.run<[no: number]>(touchStatement(db), [name])
  if (known !== undefined) return known[0]
  await followPromotion(db, db)
  const [added] = await db.run<[no: number]>(registerStatement(db), [name])
  return (added as [number])[0]
}

/** A worker of this process, which is registered when its number is first needed. The number is remembered. */
export function rememberWorker(db: Reader, name: string): WorkerIdentity {
  let known: number | undefined
  let first: Promise<number> | undefined
  const register = async () => {
    known = await registerWorker(db, name)
    return known
  }
  const number = async () => {
    if (known !== undefined) return known
    first ??= register().finally(() => {
      first = undefined
    })
    return first
  }
  return { number, register }
}

/** Records that these workers are alive, as far as they were registered. */
export async function touchWorkers(db: Reader, names: readonly string[]): Promise<void> {
  await db.run(touchManyStatement(db), [textArray(names)])
}

/** Every worker ever seen, the one last seen first. */
export async function listWorkers(db: Database): Promise<Worker[]> {
  return (await db.query<Worker>(listStatement(db).text, [workersMax])).rows
}

const workersMax = 10_000

export interface WorkerPage {
  readonly workers: readonly Worker[]
  readonly total: number
  readonly nextCursor: string | null
}

/** In the order in which they were first seen, which does not change between two pages. */
export async function listWorkerPage(db: Database, filter: WorkerFilter = {}): Promise<WorkerPage> {
  checkOptions(filter, { ...pagingOptions, state: true }, 'a list of workers')
  const { limit, offset, after, order, cursorAt } = checkPaging('workers', filter, numberForm)
  const { state = null } = filter
  if (state !== null && state !== 'alive' && state !== 'stale')
    throw badOption('state', 'alive or stale', state)
  return readAtOnce(db, async (reader) => {
    const [counted] = await reader.run<[total: number]>(countStatement(db), [state])
    const start = after === null ? beforeAll[order] : Number(after)
    const values = [state, start, order === 'asc' ? 1 : -1, limit + 1, offset]
    const { rows } = await reader.query<Worker & { no: number }>(listPageStatement(db).text, values)
    const last = rows[limit - 1]
    const nextCursor = rows.length > limit && last !== undefined ? cursorAt(last.no) : null
    const workers = rows.slice(0, limit).map(({ no, ...worker }) => worker)
    return { workers, total: counted?.[0] ?? 0, nextCursor }
  })
}

/**
 * How many are alive, and how many are stale. Each start of a process has a new name, so a worker that holds no lease and has
 * been silent for ten minutes is gone and does not count.
 */
export async function countWorkers(reader: Reader): Promise<Readonly<Record<WorkerState, number>>> {
  const { rows } = await reader.query<Record<WorkerState, number>>(countStatesStatement(reader).text)
  return rows[0] as Record<WorkerState, number>
}

const numberForm = /^\d{1,10}$/
const beforeAll = { asc: -1, desc: Number.MAX_SAFE_INTEGER }
