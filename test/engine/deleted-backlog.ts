import { expect } from 'vitest'
import { Signals } from '../../src/core/signals.ts'
import { Admitter } from '../../src/engine/admit.ts'
import { SharedPeek } from '../../src/engine/shared-peek.ts'
import { createLogger } from '../../src/observe/log.ts'
import { deleteSubscription } from '../../src/subscriptions/subscriptions.ts'
import { Upkeep } from '../../src/upkeep/upkeep.ts'
import type { Engine } from '../support/engine.ts'

const batchMax = 5_000

/** Deletes a subscription that is owed so many events, and waits until upkeep has cancelled all of them. */
export async function endDeletedBacklog(
  engine: Engine,
  { plain, inLanes }: { plain: number; inLanes: number },
): Promise<void> {
  const { db } = engine
  const no = await engine.subscribe('gone', ['note'])
  const batch = (length: number, key: (n: number) => string | undefined) =>
    engine.publish(...Array.from({ length }, (_, n) => ({ orderingKey: key(n) })))
  for (let left = plain; left > 0; left -= batchMax) await batch(Math.min(left, batchMax), () => undefined)
  for (let left = inLanes; left > 0; left -= batchMax)
    await batch(Math.min(left, batchMax), (n) => `k${n % 500}`)
  const admitter = new Admitter(db)
  while (!(await admitter.admit()).drained);
  await deleteSubscription(db, db, { name: 'gone' })

  const troubles: unknown[] = []
  const nothing = () => undefined
  const upkeep = new Upkeep({
    signals: new Signals(createLogger(false)),
    ...{ db, admitter, sharedPeek: new SharedPeek(db), overdueAfterMs: 60_000 },
    handlers: { isAnyLimited: false },
    retention: { step: async () => false },
    memory: { moveLeft: async () => false },
    observe: {
      ...{ reclaimed: nothing, expired: nothing, abandoned: nothing, overdue: nothing, unrouted: nothing },
      ...{ pressed: nothing, drained: nothing, asleep: nothing, promoted: nothing },
      trouble: (error) => void troubles.push(error),
    },
  })
  upkeep.start()
  const left = async () => {
    const { rows } = await db.query<{ left: number }>(
      `select count(*)::int as left from ${db.schema}.unfinished where subscription = $1`,
      [no],
    )
    return rows[0]?.left
  }
  await expect.poll(left, { timeout: 200_000, interval: 100 }).toBe(0)
  await upkeep.stop()
  expect(troubles).toEqual([])
  const { rows } = await db.query(
    `select count(*)::int from ${db.schema}.audit where settlement = 'cancelled'`,
  )
  expect(rows).toEqual([{ count: plain + inLanes }])
}
