import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { migrate } from '../../src/db/migrate.ts'
import { parseCatalog, readCatalog } from '../support/catalog.ts'
import { createTestDatabase } from '../support/database.ts'

/**
 * The schema that ten migrations made before they became one baseline. An object that the baseline has on purpose in another
 * form stands in this list with the reason: object → why.
 */
const fixture = new URL('fixtures/schema-before-baseline.txt', import.meta.url)
const publishMany =
  'function publish_many(text[], text[], text[], text[], text[], text[], text[], text[], text[], timestamp with time zone[], text[], text[], text[], timestamp with time zone[], timestamp with time zone[], smallint[], text[], bytea[], boolean[], text[], text[], text, integer[], integer[], bigint, integer, boolean, integer[])'
const jumps = 'a list may jump to the next unfinished delivery of one subscription'
const changedOnPurpose = new Map<string, string>([
  ['column unfinished_unordered.subscription', jumps],
  ['function delivery_states(bigint[])', 'takes subscriptions'],
  ['function delivery_states(bigint[], integer[])', 'takes subscriptions'],
  ['function delivery_status(text, integer)', 'the word for a delivery in lists, said once'],
  ['function event_statuses(bigint[])', 'event_states alone says what status an event has'],
  ['function next_unfinished(bigint)', jumps],
  ['function next_unfinished(bigint, integer)', jumps],
  ['function previous_unfinished(bigint)', jumps],
  ['function previous_unfinished(bigint, integer)', jumps],
  ['index runs.runs_retried', 'lists find what waits for a retry'],
  ['view messages', 'uses delivery_status'],
  ['view unfinished_unordered', jumps],
  [publishMany, 'a repeat is answered with its deliveries also after its event has gone'],
  ['column lane_counters.timeline', 'after a failover a lane begins a new epoch'],
])

test('the baseline makes the schema of the ten migrations that it replaced, but for changes on purpose', async () => {
  const database = await createTestDatabase('baseline')
  // A name that occurs nowhere else: the catalog is read without it.
  const db = await database.open({ schema: 'schema_of_baseline' })
  await migrate(db)
  const before = parseCatalog(await readFile(fixture, 'utf8'))
  const now = await readCatalog(db, db.schema)
  await database.drop()

  const objects = [...new Set([...before.keys(), ...now.keys()])].sort()
  const differing = objects
    .map((object) => ({ object, before: before.get(object), now: now.get(object) }))
    .filter((each) => each.before !== each.now)
  expect(differing.filter(({ object }) => !changedOnPurpose.has(object))).toEqual([])
  const stale = [...changedOnPurpose.keys()].filter(
    (name) => !differing.some(({ object }) => object === name),
  )
  expect(stale).toEqual([])
})
