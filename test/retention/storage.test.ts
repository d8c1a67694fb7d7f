import { expect, test } from 'vitest'
import { dayMs, useKept } from './setup.ts'

const { open } = useKept('storage')

test('every table is told with its rows and bytes, and every policy', async () => {
  const { hub, db } = await open({ keepDeadLettersMs: 5 * dayMs })
  await hub.defineType('gone', { keepMs: 0 })
  await hub.defineType('usual')
  const first = await hub.publish({ type: 't', payload: 1 })
  await hub.publish({ type: 't', payload: 1 })
  const { tables, policies } = await hub.storage()
  expect(policies).toEqual({
    keepFinishedMs: 7 * dayMs,
    keepAuditMs: 7 * dayMs,
    keepDeadLettersMs: 5 * dayMs,
    archiveDirectory: undefined,
    types: [{ type: 'gone', keepMs: 0 }],
  })
  const events = tables.find(({ table }) => table === 'events')
  expect(events).toMatchObject({ rows: 2, rowsAreEstimate: false, oldestAt: first.createdAt })
  expect(events?.bytes).toBeGreaterThan(8_192)
  const { rows } = await db.query<{ count: number }>(
    `select count(*)::int as count from pg_tables where schemaname = $1`,
    [db.schema.replaceAll('"', '')],
  )
  expect(tables).toHaveLength(rows[0]?.count as number)
})

test('what was removed is counted, and the bytes of tables are metrics', async () => {
  const { hub, clock } = await open()
  await hub.publishMany(Array.from({ length: 5 }, (_, n) => ({ type: 't', payload: n })))
  await clock.advance(8 * dayMs)
  await hub.prune()
  const text = await hub.scrape()
  expect(text).toMatch(/^posthorn_pruned_total\{table="events"\} 5$/m)
  expect(text).toMatch(/^posthorn_storage_bytes\{table="events"\} [1-9]\d*$/m)
})
