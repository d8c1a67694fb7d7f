import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { startEmbedded } from '../../src/db/embedded.ts'

/** The short one: kills, other users, foreign servers and broken directories are in `embedded.long.test.ts`. */
test('a fresh directory gets a durable server, and what was committed is there after a stop and a start', async () => {
  const parent = await mkdtemp(join(tmpdir(), 'ph-'))
  onTestFinished(() => rm(parent, { recursive: true, force: true }))
  const dataDirectory = join(parent, 'data')
  const query = async (text: string) => {
    const server = await startEmbedded({ dataDirectory })
    try {
      expect(server).toMatchObject({ durability: 'synced', joined: false, binaries: 'bundled' })
      const client = new pg.Client(server.connection)
      await client.connect()
      try {
        return (await client.query(text)).rows
      } finally {
        await client.end()
      }
    } finally {
      await server.stop()
    }
  }
  await query('create table kept as select 7 as n')
  expect(await query('select n from kept')).toEqual([{ n: 7 }])
})
