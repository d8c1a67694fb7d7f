import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { afterEach, expect, test } from 'vitest'
import { leaseRuns, settleRuns } from '../support/pulling.ts'
import { dayMs, type Kept, useKept } from './setup.ts'

const { open } = useKept('archive')
const made: string[] = []

afterEach(async () => {
  await Promise.all(made.splice(0).map((path) => rm(path, { recursive: true, force: true })))
})

async function makeDirectory(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'posthorn-archive-'))
  made.push(path)
  return path
}

async function finishSome(kept: Kept, count: number): Promise<void> {
  const { hub } = kept
  await hub.subscribe('t', { name: 'one' })
  await hub.publishMany(Array.from({ length: count }, (_, n) => ({ type: 't', payload: n })))
  await settleRuns(hub, await leaseRuns(hub, 'one', { limit: count }), { kind: 'succeeded' })
  await kept.clock.advance(8 * dayMs)
}

async function readArchive(directory: string): Promise<Record<string, unknown>[]> {
  const names = await readdir(directory)
  const texts = await Promise.all(
    names.map(async (name) => gunzipSync(await readFile(join(directory, name))).toString()),
  )
  return texts.flatMap((text) =>
    text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>),
  )
}

test('every record is in a file before it is gone', async () => {
  const archiveDirectory = join(await makeDirectory(), 'not', 'there', 'yet')
  const kept = await open({ archiveDirectory })
  await finishSome(kept, 3)
  expect((await kept.hub.prune()).removed.audit).toBe(3)
  expect(await kept.count('audit')).toBe(0)
  const records = await readArchive(archiveDirectory)
  expect(records.map(({ event_id: id }) => id)).toEqual([1, 2, 3])
  expect(records[0]).toMatchObject({
    id: 1,
    subscription: 'one',
    settlement: 'completed',
    worker_id: 'w',
    attempt: 1,
  })
  const names = await readdir(archiveDirectory)
  expect(names).toEqual([
    expect.stringMatching(/^t\d+-audit-0000000000000001-0000000000000003-[0-9a-f]{8}\.jsonl\.gz$/),
  ])
})

test('what was sent and answered goes with the record of its attempt, however many there are', async () => {
  const archiveDirectory = await makeDirectory()
  const kept = await open({ archiveDirectory })
  await finishSome(kept, 1)
  const { db } = kept
  await db.query(
    `insert into ${db.schema}.audit (id, event_id, subscription, settlement, attempt, token, finished_at)
    overriding system value
    select -n, a.event_id, a.subscription, 'retried', n, n, a.finished_at
    from ${db.schema}.audit a, generate_series(1, 2500) n`,
  )
  await db.query(
    `insert into ${db.schema}.exchanges (event_id, subscription, token, attempt, started_at, request, status_code, timings)
    select a.event_id, a.subscription, a.token, a.attempt, a.finished_at, '{"url":"http://a"}', 503, '{"total_ms":7}'
    from ${db.schema}.audit a where a.settlement = 'retried'`,
  )
  const { removed } = await kept.hub.prune()
  expect(removed).toMatchObject({ audit: 2_501, exchanges: 2_500 })
  const records = await readArchive(archiveDirectory)
  const [last, ...attempts] = records.sort((a, b) => Number(b.id) - Number(a.id))
  expect(last).toMatchObject({ settlement: 'completed', exchange: null })
  expect(attempts).toHaveLength(2_500)
  const exchange = {
    request: { url: 'http://a' },
    status_code: 503,
    response: null,
    timings: { total_ms: 7 },
  }
  for (const attempt of attempts) expect(attempt).toMatchObject({ settlement: 'retried', exchange })
})

test('where nothing can be written nothing is removed, and that is told', async () => {
  const file = join(await makeDirectory(), 'file')
  await writeFile(file, '')
  const kept = await open({ archiveDirectory: join(file, 'below') })
  await finishSome(kept, 3)
  await kept.hub.retention.step()
  expect(await kept.count('audit')).toBe(3)
  expect(await kept.hub.scrape()).toMatch(/^posthorn_prune_failures_total 1$/m)
  await expect(kept.hub.prune()).rejects.toMatchObject({ code: 'ARCHIVE_FAILED' })
  expect(await kept.count('audit')).toBe(3)
  expect(await kept.count('events')).toBe(0)
})

test('what a pass could not archive the next one does', async () => {
  const directory = await makeDirectory()
  const file = join(directory, 'archive')
  await writeFile(file, '')
  const kept = await open({ archiveDirectory: file })
  await finishSome(kept, 2)
  await kept.hub.retention.step()
  await rm(file)
  await kept.hub.retention.step()
  expect(await kept.count('audit')).toBe(0)
  expect(await readArchive(file)).toHaveLength(2)
})

test('a prune may name a directory of its own', async () => {
  const archiveDirectory = await makeDirectory()
  const kept = await open()
  await finishSome(kept, 2)
  await kept.hub.prune({ archiveDirectory })
  expect(await readArchive(archiveDirectory)).toHaveLength(2)
})
