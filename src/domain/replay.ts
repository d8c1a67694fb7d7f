import { badField } from './bad-value.ts'
import { type EventFilter, parseFilter } from './filter.ts'
import { checkOptions, type NamesOf } from './known-names.ts'
import { checkPattern } from './pattern.ts'
import { rateMax, rateMin } from './subscription.ts'

export const replayStates = ['running', 'completed', 'aborted'] as const
export type ReplayState = (typeof replayStates)[number]

/** The kinds of dead letters that a recovery sends again. */
export const letterKinds = ['buried', 'expired', 'all'] as const
export type LetterKinds = (typeof letterKinds)[number]

export interface RecoverOptions {
  /** Only dead letters buried at or after this time. */
  readonly since: Date
  /** Only dead letters buried before this time. Default: the time of the call. */
  readonly until?: Date
  /** Default `buried`. */
  readonly deadLetters?: LetterKinds
  readonly ratePerSecond?: number
}

/** At least one of the first five options is needed. */
export interface ReplayOptions {
  /** Only events published at or after this time. */
  readonly from?: Date
  /** Only events published before this time. */
  readonly to?: Date
  readonly eventIds?: readonly number[]
  /** `order.created`, `order.*` or `*`. */
  readonly eventType?: string
  /** Conditions by JSON pointer, as subscriptions have them. */
  readonly filter?: EventFilter
  readonly ratePerSecond?: number
}

/** A request in the form in which it is stored and compared. */
export type ReplayPlan =
  | { readonly kind: 'recover'; readonly request: RecoverRequest }
  | { readonly kind: 'replay'; readonly request: ReplayRequest }

export interface RecoverRequest {
  readonly since: string
  readonly until: string | null
  readonly dead_letters: LetterKinds
  readonly rate_per_second: number | null
}

export interface ReplayRequest {
  readonly from: string | null
  readonly to: string | null
  readonly event_ids: readonly number[] | null
  readonly event_type: string | null
  readonly filter: EventFilter | null
  readonly rate_per_second: number | null
}

export const replayEventIdsMax = 1_000

const recoverNames: NamesOf<RecoverOptions> = {
  since: true,
  until: true,
  deadLetters: true,
  ratePerSecond: true,
}
const replayNames: NamesOf<ReplayOptions> = {
  from: true,
  to: true,
  eventIds: true,
  eventType: true,
  filter: true,
  ratePerSecond: true,
}

/** Throws BAD_FIELD. */
export function planRecover(options: RecoverOptions): ReplayPlan {
  checkOptions(options, recoverNames, 'recover')
  const { until, deadLetters = 'buried', ratePerSecond } = options
  const since = readTime('since', options.since)
  if (since === null) throw badField('since', 'given', undefined)
  if (!letterKinds.includes(deadLetters)) {
    throw badField('dead_letters', `one of ${letterKinds.join(', ')}`, deadLetters)
  }
  const request = {
    since,
    until: readTime('until', until),
    dead_letters: deadLetters,
    rate_per_second: readRate(ratePerSecond),
  }
  checkOrder('until', options.since, until)
  return { kind: 'recover', request }
}

/** Throws BAD_FIELD. */
export function planReplay(options: ReplayOptions): ReplayPlan {
  checkOptions(options, replayNames, 'replay')
  const { from, to, eventIds, eventType, filter, ratePerSecond } = options
  if ([from, to, eventIds, eventType, filter].every((one) => one === undefined)) {
    throw badField('from', 'given where there is no to, event_ids, event_type or filter', undefined)
  }
  if (eventType !== undefined) checkPattern(eventType)
  if (filter !== undefined) parseFilter(filter)
  const request = {
    from: readTime('from', from),
    to: readTime('to', to),
    event_ids: eventIds === undefined ? null : readIds(eventIds),
    event_type: eventType ?? null,
    filter: filter ?? null,
    rate_per_second: readRate(ratePerSecond),
  }
  checkOrder('to', from, to)
  return { kind: 'replay', request }
}

/** The same text for equal requests, whatever the order of their members. */
export function canonicalText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${members.map(([name, one]) => `${JSON.stringify(name)}:${canonicalText(one)}`).join(',')}}`
}

function readIds(ids: readonly number[]): number[] {
  const sorted = [...new Set(ids)].sort((a, b) => a - b)
  if (sorted.length === 0 || sorted.length > replayEventIdsMax) {
    throw badField('event_ids', `1 to ${replayEventIdsMax} ids`, ids)
  }
  for (const id of sorted) {
    if (!Number.isSafeInteger(id) || id < 1) throw badField('event_ids', 'ids of events', id)
  }
  return sorted
}

function readTime(field: string, time: Date | undefined): string | null {
  if (time === undefined) return null
  if (time instanceof Date && !Number.isNaN(time.getTime())) return time.toISOString()
  throw badField(field, 'a time', time)
}

function readRate(rate: number | undefined): number | null {
  if (rate === undefined) return null
  if (typeof rate === 'number' && rate >= rateMin && rate <= rateMax) return rate
  throw badField('rate_per_second', `a number from ${rateMin} to ${rateMax}`, rate)
}

function checkOrder(field: string, first: Date | undefined, last: Date | undefined): void {
  if (first === undefined || last === undefined || first < last) return
  throw badField(field, `later than ${first.toISOString()}`, last)
}
