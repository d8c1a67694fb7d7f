import { numberArray } from '../db/array.ts'
import type { Connection } from '../db/database.ts'
import { parseFilter } from '../domain/filter.ts'
import type { ReplayPlan } from '../domain/replay.ts'
import { chooseByIdsStatement, chooseInRangeStatement, chooseLettersStatement } from './replay-statements.ts'

/** A stretch of events, and how much of it is searched at once. */
export interface ChoiceRequest {
  readonly plan: ReplayPlan
  readonly subscription: number
  /** Only events with a higher id. */
  readonly after: number
  /** Only events up to this id. */
  readonly lastId: number
  /** Only dead letters up to this number, since the others were buried later; null: all. */
  readonly lastLetter: number | null
  readonly deliveriesMax: number
  readonly seenMax: number
}

export interface Choice {
  /** In ascending order. */
  readonly eventIds: readonly number[]
  /** The search is complete up to this event id. */
  readonly reached: number
}

/** The next deliveries that a replay asks for, in the order of their events, whether or not they can be sent. */
export async function chooseDeliveries(
  tx: Connection,
  db: { readonly schema: string },
  request: ChoiceRequest,
): Promise<Choice> {
  const { after, lastId, deliveriesMax, seenMax } = request
  const { statement, values } = searchFor(db, request)
  const [row] = await tx.run<ChoiceRow>(statement, values)
  const [eventIds, seen, lastSeen] = row as ChoiceRow
  if (eventIds.length === deliveriesMax) return { eventIds, reached: eventIds.at(-1) as number }
  return { eventIds, reached: seen === seenMax ? (lastSeen as number) : Math.max(after, lastId) }
}

function searchFor(db: { readonly schema: string }, request: ChoiceRequest) {
  const { plan, subscription, after, lastId, lastLetter, deliveriesMax, seenMax } = request
  const stretch = [subscription, after, lastId, deliveriesMax, seenMax]
  if (plan.kind === 'recover') {
    const { since, until, dead_letters: kinds } = plan.request
    const asked = kinds === 'all' ? ['buried', 'expired'] : [kinds]
    return { statement: chooseLettersStatement(db), values: [...stretch, asked, since, until, lastLetter] }
  }
  const { from, to, event_type: type, event_ids: ids, filter } = plan.request
  const conditions = filter === null ? null : JSON.stringify(parseFilter(filter))
  const values = [...stretch, from, to, type, conditions]
  if (ids === null) return { statement: chooseInRangeStatement(db), values }
  return { statement: chooseByIdsStatement(db), values: [...values, numberArray(ids)] }
}

type ChoiceRow = [eventIds: number[], seen: number, lastSeen: number | null]
