import { describe, expect, test } from 'vitest'
import { SharedReading } from '../../src/observe/shared-reading.ts'
import { createSignal } from '../support/signal.ts'

describe('one reading for all who ask', () => {
  test('those who ask at once share a reading, and those who ask while it is fresh get the same', async () => {
    const { reading, clock, readings } = newReading()
    expect(await Promise.all([reading.get(), reading.get(), reading.get()])).toEqual([1, 1, 1])
    clock.now = 9_999
    expect(await reading.get()).toBe(1)
    expect(readings()).toBe(1)
    clock.now = 10_000
    expect(await reading.get()).toBe(2)
  })

  test('a reading that took long is kept for twenty times as long', async () => {
    const { reading, clock, readings } = newReading({ tookMs: 3_000 })
    await reading.get()
    clock.now = 59_999
    await reading.get()
    expect(readings()).toBe(1)
    clock.now = 60_000
    await reading.get()
    expect(readings()).toBe(2)
  })

  test('a reading that failed gives nothing, is told, and is tried again after a second', async () => {
    const failing = { fails: true }
    const { reading, clock, readings, troubles } = newReading(failing)
    expect(await reading.get()).toBeUndefined()
    clock.now = 999
    expect(await reading.get()).toBeUndefined()
    expect([readings(), troubles.length]).toEqual([1, 1])
    failing.fails = false
    clock.now = 1_000
    expect(await reading.get()).toBe(2)
  })

  test('what was read before a failure is not given after it', async () => {
    const failing = { fails: false }
    const { reading, clock } = newReading(failing)
    expect(await reading.get()).toBe(1)
    failing.fails = true
    clock.now = 10_000
    expect(await reading.get()).toBeUndefined()
  })

  test('whoever has waited long enough gets the reading before, and the next one gets the late one', async () => {
    const late = createSignal()
    const setup = { waitMsMax: 5, until: Promise.resolve() }
    const { reading, clock, readings } = newReading(setup)
    expect(await reading.get()).toBe(1)
    setup.until = late.given
    clock.now = 10_000
    expect(await reading.get()).toBe(1)
    expect(readings()).toBe(2)
    late.give()
    expect(await reading.get()).toBe(2)
    expect(readings()).toBe(2)
  })

  test('without a reading before there is nothing to give meanwhile', async () => {
    const late = createSignal()
    const { reading } = newReading({ waitMsMax: 5, until: late.given })
    expect(await reading.get()).toBeUndefined()
    late.give()
  })
})

interface Setup {
  readonly tookMs?: number
  readonly waitMsMax?: number
  fails?: boolean
  until?: Promise<void>
}

function newReading(setup: Setup = {}) {
  const clock = { now: 0 }
  const troubles: unknown[] = []
  let readings = 0
  const reading = new SharedReading({
    read: async () => {
      const no = ++readings
      await setup.until
      clock.now += setup.tookMs ?? 0
      if (setup.fails) throw new Error('away')
      return no
    },
    freshMs: 10_000,
    waitMsMax: setup.waitMsMax ?? 10_000,
    now: () => clock.now,
    trouble: (error) => void troubles.push(error),
  })
  return { reading, clock, troubles, readings: () => readings }
}
