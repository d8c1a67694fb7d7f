import { type Database, defineStatement } from '../db/database.ts'
import { shardFirstId } from '../domain/id.ts'
import { PosthornError } from '../errors.ts'

/**
 * Gives the schema its range of event ids. Only a schema that has not given out an id can be moved to
 * another shard: ids of two shards must never meet.
 */
export async function setShard(db: Database, shard: number): Promise<void> {
  const first = shardFirstId(shard)
  const last = first + 2 ** 43 - 2
  const rows = await db.run<[min: number, used: boolean]>(readSequence(db), [])
  const [min, used] = rows[0] as [number, boolean]
  if (min === first) return
  if (used) {
    const found = Math.floor(min / 2 ** 43)
    throw new PosthornError('BAD_OPTION', {
      option: 'shard',
      expected: `${found}, which this schema was made for`,
      value: shard,
    })
  }
  await db.query(
    `alter sequence ${db.schema}.event_ids minvalue ${first} maxvalue ${last} start ${first} restart ${first}`,
  )
}

const readSequence = defineStatement(
  'read_event_ids',
  `select s.seqmin, q.is_called
  from pg_sequence s, __schema__.event_ids q
  where s.seqrelid = '__schema__.event_ids'::regclass`,
)
