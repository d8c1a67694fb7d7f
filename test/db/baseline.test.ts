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
const columnsOfAgain = [
  'attempts',
  'blocked_run',
  'concurrency_key',
  'event_id',
  'max_retries',
  'ordering_key',
  'subscription',
  'tags',
]
const jumps = 'a list may jump to the next unfinished delivery of one subscription'
const ended = 'a list finds what ended without success also after its dead letter was pruned'
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
  ['index audit.audit_cancelled', ended],
  ['index audit.audit_ended', ended],
  ['index audit.audit_ended_subscription', ended],
  ['index dead_letters.dead_letters_waiting', ended],
  ['view messages', 'uses delivery_status'],
  ['view unfinished_unordered', jumps],
  [publishMany, 'a repeat is answered with its deliveries also after its event has gone'],
  ['column lane_counters.timeline', 'after a failover a lane begins a new epoch'],
  ['function route(text, text[])', 'its column `picky` is called `inspects`'],
  ['function rare_fields(events)', 'statements share what they select of an event'],
  ['function memory_event(memory_events)', 'an event of a memory queue is read like any other'],
  ['function has_expired_rest(runs)', 'expire and peek share it'],
  ['function is_replay_due(timestamp with time zone)', 'two statements share it'],
  ['function worker_states()', 'five statements share it'],
  ['view subscription_rows', 'statements share what they select of a subscription'],
  ['function take_out(bigint[], integer, boolean, boolean)', 'cancelling and burying share it'],
  ['function remove_rows(bigint[], lane_queue[])', 'cancelling and expiring share it'],
  ['function enter_again(again[])', 'redrive and replay share it'],
  ['function resume_lanes(bigint[])', 'discarding and skipping share it'],
  ...columnsOfAgain.map((name): [string, string] => [`column again.${name}`, 'what enter_again takes']),
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
  const isOfNewView = (object: string) => object.startsWith('column subscription_rows.')
  const differing = objects
    .filter((object) => !isOfNewView(object))
    .map((object) => ({ object, before: before.get(object), now: now.get(object) }))
    .filter((each) => each.before !== each.now)
  expect(differing.filter(({ object }) => !changedOnPurpose.has(object))).toEqual([])
  const stale = [...changedOnPurpose.keys()].filter(
    (name) => !differing.some(({ object }) => object === name),
  )
  expect(stale).toEqual([])
})
