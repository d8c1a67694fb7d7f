import { firstKeys } from '../core/list-sql.ts'
import type { Source, Stretch, WalkedList } from '../core/list-walk.ts'
import type { Order } from '../core/paging.ts'
import type { Reader } from '../core/reader.ts'
import { within } from './event-terms.ts'

/** How to find the events that may have a delivery in a state. It finds all that have one, and perhaps others. */
export interface StateFinder {
  /** Queries of the event ids, as `key`, if deliveries in the state are few and have an index or table of their own. */
  readonly members?: (stretch: Stretch<number>) => readonly string[]
  /** The same queries for one subscription. */
  readonly ofSubscription?: (stretch: Stretch<number>, subscription: number) => readonly string[]
  /** True: they have no order, so each query reads all of them. */
  readonly isUnordered?: boolean
  /** The SQL functions that skip a stretch without such deliveries. */
  readonly jump?: 'unfinished' | 'completed'
}

export const finders = {
  unfinished: { jump: 'unfinished' },
  completed: { jump: 'completed' },
  inFlight: {
    jump: 'unfinished',
    isUnordered: true,
    members: (stretch) => [
      `select f.event_id as key from __schema__.in_flight f where ${within(stretch, 'f.event_id')}`,
    ],
  },
  // Only the first delivery of a run can have failed. While a run is leased, first_id may lag behind.
  retried: {
    jump: 'unfinished',
    members: (stretch) => [
      `select r.first_id as key
      from __schema__.runs r
      where r.failures > 0 and r.state <> 'leased' and ${within(stretch, 'r.first_id')}`,
      `select r.event_ids[1] as key
      from __schema__.runs r
      where r.failures > 0 and r.state = 'leased' and ${within(stretch, 'r.event_ids[1]')}`,
    ],
  },
  buried: ended('buried'),
  expired: ended('expired'),
  cancelled: ended('cancelled', 'discarded'),
  // Events that no subscription wanted have no audit record.
  unwanted: {
    members: (stretch) => [
      `select l.event_id as key
      from __schema__.dead_letters l
      where l.subscription is null and l.redriven_at is null and ${within(stretch, 'l.event_id')}`,
    ],
  },
} satisfies Record<string, StateFinder>

type EndedSettlement = 'buried' | 'expired' | 'cancelled' | 'discarded'

/** Finds deliveries by the audit record of their end, also those that were sent again since. */
function ended(...settlements: readonly EndedSettlement[]): StateFinder {
  const records = (stretch: Stretch<number>, settlement: EndedSettlement) =>
    `select a.event_id as key
      from __schema__.audit a
      where a.settlement = '${settlement}' and ${within(stretch, 'a.event_id')}`
  return {
    members: (stretch) => settlements.map((settlement) => records(stretch, settlement)),
    ofSubscription: (stretch, subscription) =>
      settlements.map((settlement) => `${records(stretch, settlement)} and a.subscription = ${subscription}`),
  }
}

type StateSearch = Pick<WalkedList<number, unknown>, 'sources' | 'jump' | 'windowMin'>

const unorderedWindowMin = 1024

/** For several states at once: their queries together, if each state has some; else what they have in common. */
export function searchStates(
  reader: Reader,
  asked: readonly StateFinder[],
  subscription: number | undefined,
): StateSearch {
  const [first] = asked
  if (first === undefined) return { sources: [] }
  if (asked.every(({ members }) => members !== undefined)) {
    const queries = (stretch: Stretch<number>) =>
      asked.flatMap((finder) => membersOf(finder, stretch, subscription))
    const source: Source<number> = {
      candidates: ({ stretch, order, size }) => firstKeys(queries(stretch), order, size),
    }
    const windowMin = asked.some(({ isUnordered }) => isUnordered) ? unorderedWindowMin : undefined
    return { sources: [source], windowMin }
  }
  const { jump } = first
  if (jump === undefined || asked.some((finder) => finder.jump !== jump)) return { sources: [] }
  return { sources: [], jump: (stretch, order) => skip(reader, jump, { stretch, order, subscription }) }
}

function membersOf(
  { members, ofSubscription }: StateFinder,
  stretch: Stretch<number>,
  subscription: number | undefined,
): readonly string[] {
  if (subscription !== undefined && ofSubscription !== undefined) return ofSubscription(stretch, subscription)
  return members?.(stretch) ?? []
}

interface Skip {
  readonly stretch: Stretch<number>
  readonly order: Order
  readonly subscription: number | undefined
}

async function skip(
  reader: Reader,
  jump: NonNullable<StateFinder['jump']>,
  { stretch: { above, below }, order, subscription }: Skip,
): Promise<number | null> {
  const [name, from] = order === 'asc' ? [`next_${jump}`, above] : [`previous_${jump}`, below]
  const values = jump === 'unfinished' ? `${from}, ${subscription ?? 'null'}` : from
  const { rows } = await reader.query<{ id: number | null }>(`select __schema__.${name}(${values}) as id`)
  return rows[0]?.id ?? null
}
