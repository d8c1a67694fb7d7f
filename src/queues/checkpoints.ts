import { checkPaging, checkTime, type Paging, pagingOptions, uuidForm } from '../core/paging.ts'
import { readAtOnce } from '../core/reader.ts'
import type { Database } from '../db/database.ts'
import { checkOptions } from '../domain/known-names.ts'
import * as statements from './record-statements.ts'

export type CheckpointReason = 'requested' | 'interval' | 'stop' | 'threshold'

/** How far a queue had come at some time. */
export interface Checkpoint {
  readonly id: string
  readonly queue: string
  /** The event that was completed last. */
  readonly checkpointId: number | null
  /** Events processed by then. */
  readonly eventCount: number
  readonly reason: CheckpointReason
  readonly createdAt: Date
}

export interface CheckpointRequest {
  /** By number; null: every queue that is due and has done something since its last checkpoint. */
  readonly queues: readonly number[] | null
  readonly reason: CheckpointReason
}

export interface Checkpointed {
  readonly checkpoints: readonly Checkpoint[]
  /** The bound of one call was reached: more queues may be due. */
  readonly more: boolean
}

const queuesMax = 50

/** Records how far queues have come, and their documents. */
export async function checkpoint(db: Database, { queues, reason }: CheckpointRequest): Promise<Checkpointed> {
  const rows = await db.once<[due: number, ...(CheckpointRow | [null])]>(
    statements.checkpointQueues(db),
    [queues, reason, queuesMax],
    { indexPlans: true },
  )
  const made = rows.flatMap(([, ...row]) =>
    row[0] === null ? [] : [checkpointFromRow(row as CheckpointRow)],
  )
  return { checkpoints: made, more: rows[0]?.[0] === queuesMax }
}

export type CheckpointRow = [
  id: string,
  queue: string,
  checkpointId: number | null,
  eventCount: number,
  reason: CheckpointReason,
  createdAt: Date,
]

export function checkpointFromRow(row: CheckpointRow): Checkpoint {
  const [id, queue, checkpointId, eventCount, reason, createdAt] = row
  return { id, queue, checkpointId, eventCount, reason, createdAt }
}

export interface CheckpointFilter extends Paging {
  readonly since?: Date
  readonly until?: Date
}

export interface CheckpointPage {
  readonly checkpoints: readonly Checkpoint[]
  readonly nextCursor: string | null
}

/** The oldest first by default. */
export async function listCheckpoints(
  db: Database,
  queue: string,
  filter: CheckpointFilter = {},
): Promise<CheckpointPage> {
  checkOptions(filter, { ...pagingOptions, since: true, until: true }, 'a list of checkpoints')
  const { since, until } = filter
  checkTime('since', since)
  checkTime('until', until)
  const { limit, offset, after, order, cursorAt } = checkPaging('checkpoints', { ...filter, queue }, uuidForm)
  return readAtOnce(db, async (reader) => {
    const list = order === 'asc' ? statements.listCheckpoints : statements.listCheckpointsDescending
    const values = [queue, since ?? null, until ?? null, after, limit + 1, offset]
    const rows = await reader.run<CheckpointRow>(list(db), values)
    const checkpoints = rows.slice(0, limit).map(checkpointFromRow)
    const last = checkpoints.at(-1)
    const nextCursor = rows.length > limit && last !== undefined ? cursorAt(last.id) : null
    return { checkpoints, nextCursor }
  })
}
