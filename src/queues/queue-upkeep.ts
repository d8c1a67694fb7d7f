import type { Database } from '../db/database.ts'
import * as statements from './queue-statements.ts'

export type PressureLevel = 'none' | 'high' | 'full'

export interface PressureChange {
  readonly name: string
  readonly before: PressureLevel
  readonly level: PressureLevel
  readonly depth: number
  /** Publishers are refused. */
  readonly isRefusing: boolean
}

const indexPlans = { indexPlans: true } as const
const queuesMax = 500
const talliesMax = 5_000

/** Measures how deep the queues with a limit are. Returns the queues whose level changed. */
export async function measurePressure(db: Database): Promise<PressureChange[]> {
  const rows = await db.once<PressureRow>(statements.measurePressure(db), [queuesMax], indexPlans)
  return rows.map(([name, before, level, depth, isRefusing]) => ({ name, before, level, depth, isRefusing }))
}

type PressureRow = [
  name: string,
  before: PressureLevel,
  level: PressureLevel,
  depth: number,
  isRefusing: boolean,
]

/** Marks queues that have finished draining as drained. Returns their names. */
export async function finishDrains(db: Database): Promise<string[]> {
  const rows = await db.once<[name: string]>(statements.finishDrains(db), [], indexPlans)
  return rows.map(([name]) => name)
}

/** Adds up what queues have done, a bounded batch at a time. True: there is more. */
export async function addUpTallies(db: Database): Promise<boolean> {
  const [row] = await db.once<[count: number]>(statements.addUpTallies(db), [talliesMax], indexPlans)
  return row?.[0] === talliesMax
}
