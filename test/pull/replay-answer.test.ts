import { expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { unavailable } from '../../src/db/failure.ts'
import { listReplays } from '../../src/deliveries/replay-rows.ts'
import { Replays } from '../../src/deliveries/replays.ts'
import type { SubscriptionCache } from '../../src/subscriptions/subscription-cache.ts'
import { useEngines } from '../support/engine.ts'

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
  const replays = new Replays({
    db,
    subscriptions: { current: async () => ({ no }) } as unknown as SubscriptionCache,
  })
  const recovery = replays.recover('s', { since: new Date('2020-01-01T00:00:00Z') })
  await expect(recovery).rejects.toMatchObject({ code: 'COMMIT_UNKNOWN' })
  expect((await listReplays(real)).replays).toHaveLength(1)
})
