import { expect, test } from 'vitest'
import type { TestPosthorn } from '../../src/testing/index.ts'
import { useHubs } from '../support/hub.ts'
import { createSignal, eventually } from '../support/signal.ts'

const hubs = useHubs('memory_ending')
const inMemory = { name: 'm', storage: 'memory', concurrency: 1 } as const

/** A hub whose queue has something in memory while more is published; `end` gives what was acknowledged. */
async function openBusy(schema: string) {
  const { hub } = await hubs.open({ schema })
  const never = createSignal()
  hub.on('t', inMemory, () => never.given)
  await hub.start()
  let isOver = false
  const publishing = publishUntil(hub, () => isOver)
  await eventually('some are in memory', () => hub.memory.views.some(({ depth }) => depth > 20))
  const end = () => {
    isOver = true
    return publishing
  }
  return { hub, end }
}

/** One after the other; returns what was acknowledged. */
async function publishUntil(hub: TestPosthorn['hub'], isOver: () => boolean): Promise<number[]> {
  const acked: number[] = []
  for (let n = 0; !isOver(); n++) {
    await hub.publish({ type: 't', payload: n }).then(
      () => acked.push(n),
      () => undefined,
    )
  }
  return acked
}

test('what is acknowledged while its hub stops is not lost', async () => {
  const first = await openBusy('stopping')
  await first.hub.stop({ graceMs: 0 })
  const acked = await first.end()

  const second = await hubs.open({ schema: 'stopping' })
  const seen = new Set<unknown>()
  second.hub.on('t', inMemory, ({ payload }) => void seen.add(payload))
  await second.hub.start()
  await eventually('all that was acknowledged ran', () => acked.every((n) => seen.has(n)))
})

test('a queue that another process takes to the database takes all that was acknowledged along', async () => {
  const first = await openBusy('moving')
  const second = await hubs.open({ schema: 'moving' })
  const seen = new Set<unknown>()
  second.hub.on('t', { name: 'm' }, ({ payload }) => void seen.add(payload))
  await second.hub.start()
  const acked = await first.end()
  await first.hub.stop({ graceMs: 0 })
  await second.clock.advance(60_000)
  await eventually('all that was acknowledged ran', async () => {
    second.hub.wake()
    return acked.every((n) => seen.has(n))
  })
})

test('a snooze is no error, whatever went wrong before', async () => {
  const { hub, clock, drain } = await hubs.open()
  let tries = 0
  hub.on('t', { ...inMemory, retry: { kind: 'fixed', delayMs: 1_000, failuresMax: 5 } }, (_, attempt) => {
    tries++
    if (tries === 1) throw new Error('no')
    if (tries < 4) attempt.snooze(1_000)
  })
  await hub.start()
  await hub.publish({ type: 't', payload: 1 })
  for (let n = 1; n < 4; n++) {
    await eventually(`try ${n}`, () => tries === n)
    await hub.memory.persist()
    await clock.advance(2_000)
    await hub.memory.sync()
    hub.wake()
  }
  await drain()
  await eventually('it is done', () => tries === 4)
  await hub.memory.persist()
  expect((await hub.queues.get('m')).totals).toMatchObject({ processed: 1, errors: 1 })
})
