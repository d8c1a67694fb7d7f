import { expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { unavailable } from '../../src/db/failure.ts'
import type { Directory } from '../../src/directory.ts'
import { listReplays } from '../../src/operations/replays.ts'
import { Replays } from '../../src/replays.ts'
import { useEngines } from './reading.ts'

const openEngine = useEngines('replay_answer')

test('a recovery that was started is not answered as if it could be asked for again', async () => {
  const { db: real, subscribe } = await openEngine()
  const no = await subscribe('s', ['note'])
  const db: Database = {
    schema: real.schema,
    query: () => Promise.reject(unavailable(new Error('Connection terminated'))),
    run: (statement, values) => real.run(statement, values),
    once: (statement, values, options) => real.once(statement, values, options),
    transaction: (work, options) => real.transaction(work, options),
    listen: (channel, listener) => real.listen(channel, listener),
    close: () => real.close(),
  }
  const replays = new Replays({ db, directory: { current: async () => ({ no }) } as unknown as Directory })
  const recovery = replays.recover('s', { since: new Date('2020-01-01T00:00:00Z') })
  await expect(recovery).rejects.toMatchObject({ code: 'COMMIT_UNKNOWN' })
  expect((await listReplays(real)).replays).toHaveLength(1)
})
