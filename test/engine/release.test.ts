import { afterEach, expect, test, vi } from 'vitest'
import { listenToStatements } from '../http/waiting.ts'
import { useServers } from '../support/http.ts'
import { createSignal, eventually } from '../support/signal.ts'

const servers = useServers('release')
afterEach(() => vi.restoreAllMocks())

/** A look for something to lease locks a run for a moment, if somebody else has just leased it. */
test('what is handed back while somebody looks at it is back, and not stuck until its lease ends', async () => {
  const { hub, db } = await servers.open()
  const { id } = await hub.publish({ title: 'x', tags: ['a'], payload: null })
  const request = {
    ...{
      subscription: 'work',
      tags: null,
      workerId: 'w',
      limit: 1,
      leaseMs: null,
      waitMs: 0,
      suspects: true,
    },
    ...({ begins: 'granted', signal: new AbortController().signal } as const),
  }
  const { runs } = await hub.pull.lease(request)
  const [locked, done] = [createSignal(), createSignal()]
  const looking = db.transaction(async (tx) => {
    await tx.query(`select id from ${db.schema}.runs for update`)
    locked.give()
    await done.given
  })
  await locked.given
  const statements = listenToStatements()
  const handing = hub.pull.handBack(runs)
  await eventually('it has met the lock', () => statements.count('release') >= 2)
  done.give()
  await Promise.all([looking, handing])
  const again = await hub.pull.lease(request)
  expect(again.runs[0]?.deliveries[0]).toMatchObject({ event: { id }, attempt: 1, failures: 0 })
})
