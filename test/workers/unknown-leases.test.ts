import { once } from 'node:events'
import pg from 'pg'
import { expect, onTestFinished, test, vi } from 'vitest'
import { Signals } from '../../src/core/signals.ts'
import { LeaseTokens } from '../../src/engine/lease-tokens.ts'
import { createLogger } from '../../src/observe/log.ts'
import { UnknownLeases } from '../../src/workers/unknown-leases.ts'
import { useHubs } from '../support/hub.ts'
import { createSignal, eventually } from '../support/signal.ts'

const hubs = useHubs('unknown_leases')

/** Looks without a database: each look is answered by `answer`. */
function watch(answer: (look: number) => Promise<number>) {
  let looks = 0
  const tokens = new LeaseTokens()
  vi.spyOn(tokens, 'handBackUnknown').mockImplementation(() => answer(++looks))
  const [handedBack, trouble] = [vi.fn(), vi.fn()]
  const signals = new Signals(createLogger(false))
  signals.on('wake', handedBack)
  const unknown = new UnknownLeases({
    tokens,
    trouble,
    signals,
    log: createLogger(false),
    runner: { knownLeases: () => () => false },
    db: undefined as never,
    identity: { number: async () => 1, register: async () => 1 },
  })
  onTestFinished(() => unknown.stop())
  return { unknown, handedBack, trouble, looks: () => looks }
}

test('a look for unknown leases that fails is repeated until it succeeds', async () => {
  const { unknown, handedBack, trouble } = watch(async (look) => {
    if (look <= 2) throw new Error('The database is away')
    return 1
  })
  unknown.soon()
  await eventually('both looks found something', () => handedBack.mock.calls.length === 2)
  expect(trouble).toHaveBeenCalledTimes(2)
})

test('a lease that becomes unknown during the last look is looked for again', async () => {
  const { unknown, handedBack, looks } = watch(async (look) => {
    if (look === 2) unknown.soon()
    return look > 2 ? 1 : 0
  })
  unknown.soon()
  await eventually('the later looks found it', () => handedBack.mock.calls.length === 2)
  expect(looks()).toBe(4)
})

test('a run that is settled during a look is not told of as handed back', async () => {
  const tokens = new LeaseTokens()
  let isHeld = true
  const transaction = vi.fn(async () => new Set())
  const db = {
    ...{ schema: 's', transaction },
    run: async () => {
      isHeld = false
      return [[1, 77]]
    },
  }
  const known = () => {
    const wasHeld = isHeld
    return () => wasHeld
  }
  expect(await tokens.handBackUnknown(db as never, { worker: 1, known })).toBe(0)
  expect(transaction).not.toHaveBeenCalled()
})

test('a refused settlement makes the process look for the lease, not wait for the next regular look', async () => {
  const soon = vi.spyOn(UnknownLeases.prototype, 'soon')
  const { hub } = await hubs.open({ schema: 'refused' })
  const [begun, ending] = [createSignal(), createSignal()]
  hub.on('t', { name: 'n' }, () => {
    begun.give()
    return ending.given
  })
  await hub.start()
  await hub.publish({ type: 't', payload: 1 })
  await begun.given
  const client = new pg.Client(hubs.connection)
  await client.connect()
  await client.query('update refused.runs set token = token + 1')
  await client.end()
  const lost = once(hub.events, 'lost')
  soon.mockClear()
  ending.give()
  await lost
  expect(soon).toHaveBeenCalled()
})
