import type { Database } from '../db/database.ts'
import { shardFirstId } from '../domain/id.ts'
import { PosthornError } from '../errors.ts'
import { readIdRangeStatement } from './publish-statements.ts'

/**
 * Gives the schema its range of event ids. A schema that has given out an id cannot move to another shard: no two shards may give
 * out the same id.
 */
export async function setShard(db: Database, shard: number): Promise<void> {
  const first = shardFirstId(shard)
  const last = first + 2 ** 43 - 2
  const rows = await db.run<[min: number, used: boolean]>(readIdRangeStatement(db), [])
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
