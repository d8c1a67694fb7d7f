import { numberArray } from '../../db/array.ts'
import { type Database, defineStatement } from '../../db/database.ts'
import type { LeasedRun } from '../../domain/delivery.ts'

/** Which of the deliveries are sent once more on demand: for each run, by event, the replay that asked for it. */
export async function findReplayed(
  db: Database,
  runs: readonly LeasedRun[],
): Promise<Map<LeasedRun, Map<number, string>>> {
  if (runs.length === 0) return new Map()
  const wanted = runs.flatMap((run) => run.deliveries.map(({ event }) => ({ run, eventId: event.id })))
  const rows = await db.run<[place: number, replay: string]>(findStatement(db), [
    numberArray(wanted.map(({ eventId }) => eventId)),
    numberArray(wanted.map(({ run }) => run.subscription)),
  ])
  const found = new Map<LeasedRun, Map<number, string>>()
  for (const [place, replay] of rows) {
    const { run, eventId } = wanted[place - 1] as (typeof wanted)[number]
    const replays = found.get(run) ?? new Map<number, string>()
    found.set(run, replays.set(eventId, replay))
  }
  return found
}

const findStatement = defineStatement(
  'find_replayed',
  `select g.place, p.replay
  from unnest($1::bigint[], $2::int[]) with ordinality as g(event_id, subscription, place)
  join __schema__.replayed p on p.event_id = g.event_id and p.subscription = g.subscription`,
)
