import type { Order } from '../core/paging.ts'
import type { Reader } from '../core/reader.ts'
import type { EventStatus } from '../domain/status.ts'
import { jumpAhead, type StatusJump } from './event-jump.ts'
import type { EventMatch } from './event-match.ts'
import type { MatchSize } from './event-size.ts'
import { type Members, membersOf } from './event-sources.ts'
import { stretchOf } from './event-sql.ts'
import { settleJudged } from './event-status.ts'
import { type Driver, nextMatches, nextMembers, type Window } from './event-window.ts'

/** What is gone along: the events that match, or those that can have the status, whichever are soon met. */
export interface Path {
  readonly match: EventMatch
  readonly status: EventStatus | undefined
  /** Null: the events themselves. */
  readonly members: Members | null
  readonly driver: Driver
  readonly statusJump: StatusJump | null
}

export interface Walk {
  readonly path: Path
  readonly order: Order
  readonly after: number | null
  readonly count: number
  /** Gives up after looking at so many. */
  readonly examinedMax: number
}

export interface Walked {
  readonly ids: number[]
  readonly examined: number
  /** How far it came: no other event up to there is asked for. */
  readonly last: number | null
  /** Why it stopped: it has enough, nothing is left, or it gave up. */
  readonly end: 'count' | 'exhausted' | 'gave up'
}

/** Events that wait or have completed are mostly everywhere; those that failed are better found where they lie. */
export function choosePath(match: EventMatch, size: MatchSize, status: EventStatus | undefined): Path {
  if (status === undefined || status === 'PENDING' || status === 'COMPLETED') {
    const statusJump = status === undefined ? null : status === 'PENDING' ? 'unfinished' : 'completed'
    return { match, status, members: null, driver: chooseDriver(size), statusJump }
  }
  return { match, status, members: membersOf(status), driver: null, statusJump: null }
}

/** A prefix that most types have is no help: each type would be looked up to find what is everywhere. */
const typesShareMax = 0.3

function chooseDriver({ parts, inTime }: MatchSize): Driver {
  let driver: Driver = null
  let least = Number.POSITIVE_INFINITY
  for (const { condition, events } of parts) {
    if (condition.on === 'tags' || condition.on === 'prefix' || events >= least) continue
    if (condition.on === 'types' && condition.types.length > 1 && events > typesShareMax * inTime) continue
    driver = condition
    least = events
  }
  return driver
}

const windowMin = 64
const windowMax = 4096
/** Most members are judged by themselves, at a fraction of the cost. */
const memberWindowMax = 16_384
/** A jump may cost as much as looking at so many events: one that gains less is not soon tried again. */
const jumpWorth = 4096

/**
 * Goes along the ids window by window, growing, until enough events are found. After a window with few of them
 * it asks where the next can be at all.
 */
export async function walkEvents(reader: Reader, walk: Walk): Promise<Walked> {
  const { path, order, count } = walk
  const ids: number[] = []
  const max = path.members === null ? windowMax : memberWindowMax
  let { after } = walk
  let examined = 0
  let size = firstSize(walk)
  let jumpFrom = 0
  for (;;) {
    const window = await nextWindow(reader, walk, after, size)
    const found = await settleJudged(reader, window, { status: path.status, order })
    ids.push(...found)
    examined += window.seen
    if (ids.length > count) {
      const page = ids.slice(0, count)
      return { ids: page, examined, last: page.at(-1) ?? after, end: 'count' }
    }
    after = window.last ?? after
    if (!window.more) return { ids, examined, last: after, end: 'exhausted' }
    if (ids.length === count) return { ids, examined, last: after, end: 'count' }
    if (examined >= walk.examinedMax) return { ids, examined, last: after, end: 'gave up' }

    const isSparse = found.length < size / 64
    size = Math.min(size * 4, max)
    if (after !== null && isSparse && examined >= jumpFrom) {
      const target = await jumpAhead(reader, { ...path, order, after })
      if (target === null) return { ids, examined, last: after, end: 'exhausted' }
      if (Math.abs(target - after) >= jumpWorth) size = windowMin
      else jumpFrom = examined + jumpWorth
      after = target
    }
  }
}

/** Where every match is wanted, one window has them all. */
function firstSize({ path, count }: Walk): number {
  const isExact = path.status === undefined && path.match.conditions.every((one) => one === path.driver)
  return isExact && count < Number.POSITIVE_INFINITY ? count : windowMin
}

async function nextWindow(reader: Reader, walk: Walk, after: number | null, size: number): Promise<Window> {
  const { path, order } = walk
  const { match, status, driver, members } = path
  const stretch = stretchOf(match.range, order, after)
  if (stretch.above + 1 >= stretch.below) return nothing
  const request = { match, status, order, stretch, size }
  return members === null ? nextMatches(reader, driver, request) : nextMembers(reader, members, request)
}

const nothing: Window = { seen: 0, last: null, more: false, sure: '{}', unsure: '{}' }
