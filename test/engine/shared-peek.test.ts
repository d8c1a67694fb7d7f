import { expect, onTestFinished, test, vi } from 'vitest'
import { untilBeat } from '../../src/core/beat.ts'
import { hasWork } from '../../src/engine/peek.ts'
import { SharedPeek } from '../../src/engine/shared-peek.ts'
import { useEngines } from '../support/engine.ts'

const openEngine = useEngines('shared_peek')

/** An engine and how often its database was asked. */
async function openCounted() {
  const engine = await openEngine()
  const asked: string[] = []
  const db = Object.create(engine.db, {
    run: {
      value: (statement: { name: string }, values: unknown[]) => {
        asked.push(statement.name)
        return engine.db.run(statement as never, values)
      },
    },
  })
  return { engine, asked, sharedPeek: new SharedPeek(db) }
}

test('those who ask together are answered by one look, each about its own subscriptions', async () => {
  const { engine, asked, sharedPeek } = await openCounted()
  const [first, second] = [await engine.subscribe('a', ['a']), await engine.subscribe('b', ['b'])]
  await engine.publish({ type: 'b' })
  const [one, other, none] = await Promise.all([
    sharedPeek.look([first]),
    sharedPeek.look([second]),
    sharedPeek.look(),
  ])
  expect(asked).toHaveLength(1)
  expect([hasWork(one, [first]), hasWork(other, [second]), hasWork(none, [])]).toEqual([false, true, false])
})

test('a look is begun after it was asked for, and the next one is another', async () => {
  const { engine, asked, sharedPeek } = await openCounted()
  const no = await engine.subscribe('a', ['a'])
  expect(await sharedPeek.look([no])).toMatchObject({
    arrivals: false,
    ready: [],
    overdue: false,
    replays: false,
  })
  await engine.publish({ type: 'a' })
  expect(await sharedPeek.look([no])).toMatchObject({ ready: [no] })
  expect(asked).toHaveLength(2)
})

test('it sees arrivals, what is due, what is overdue and replays', async () => {
  const { engine, sharedPeek } = await openCounted()
  const no = await engine.subscribe('a', ['a'])
  await engine.publish({ type: 'a', orderingKey: 'k', expiresAt: new Date(Date.now() + 60_000) })
  expect(await sharedPeek.look()).toMatchObject({ arrivals: true, overdue: false })
  const [delivery] = await engine.lease(no, { leaseMs: 1_000 })
  expect(await sharedPeek.look()).toMatchObject({ arrivals: false, overdue: false })
  await engine.moveClock(2_000)
  expect(await sharedPeek.look()).toMatchObject({ overdue: true })
  await engine.settle(delivery as never, { settlement: 'retried', afterMs: 5_000, reason: 'x' })
  expect(await sharedPeek.look()).toMatchObject({ arrivals: false, overdue: false })
  await engine.moveClock(5_000)
  expect(await sharedPeek.look()).toMatchObject({ arrivals: true, overdue: false })
  await engine.moveClock(60_000)
  expect(await sharedPeek.look()).toMatchObject({ overdue: true, replays: false })
})

test('a failed look fails for all who asked, and the next one is a new one', async () => {
  let isAway = true
  const db = {
    schema: 'x',
    run: async () => (isAway ? Promise.reject(new Error('away')) : [[true, [], false, false]]),
  }
  const sharedPeek = new SharedPeek(db as never)
  const answers = await Promise.allSettled([sharedPeek.look(), sharedPeek.look([1])])
  expect(answers.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  isAway = false
  expect(await sharedPeek.look()).toMatchObject({ arrivals: true })
})

test('beats of longer periods fall on beats of shorter ones, and none is almost now', () => {
  const clock = vi.spyOn(performance, 'now')
  onTestFinished(() => clock.mockRestore())
  for (let round = 0; round < 1_000; round++) {
    const now = round * 137.1
    clock.mockReturnValue(now)
    const [second, two, ten] = [1_000, 2_000, 10_000].map((everyMs) => {
      const ms = untilBeat(everyMs)
      expect(ms).toBeGreaterThanOrEqual(everyMs / 10 - 1)
      expect(ms).toBeLessThanOrEqual(everyMs * 1.1)
      return (now + ms) % 1_000
    }) as [number, number, number]
    for (const other of [two, ten]) {
      const apart = Math.abs(other - second)
      expect(Math.min(apart, 1_000 - apart)).toBeLessThan(50)
    }
  }
})
