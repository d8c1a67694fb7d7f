import { expect, test } from 'vitest'
import { Wakeup } from '../../src/consume/wakeup.ts'

const asleep = () => new Wakeup({ pollMs: 60_000, idlePollMs: 60_000 })
const nothing = async () => false

test('a publish that was heard without room is looked for as soon as there is some', async () => {
  const wakeup = asleep()
  wakeup.looking()
  wakeup.found(true)
  wakeup.wake()
  await wakeup.wait(nothing)
  // Nobody looked, for want of room.
  const waiting = wakeup.wait(nothing)
  wakeup.slotFree()
  expect(await within(waiting)).toBe('woken')
})

test('room alone is no reason to look where the last look took all there was', async () => {
  const wakeup = asleep()
  wakeup.looking()
  wakeup.found(true)
  const waiting = wakeup.wait(nothing)
  wakeup.slotFree()
  expect(await within(waiting)).toBe('asleep')
  expect(wakeup.isIdle).toBe(true)
  wakeup.wake()
  await waiting
})

test('a lane that is free wakes again and again, not only once', async () => {
  const wakeup = asleep()
  for (let round = 0; round < 3; round++) {
    wakeup.looking()
    wakeup.found(true)
    const waiting = wakeup.wait(nothing)
    wakeup.wakeSoon()
    expect(await within(waiting, 2_000)).toBe('woken')
  }
})

test('the timer alone is no reason to look: it peeks until there is something', async () => {
  const wakeup = new Wakeup({ pollMs: 1, idlePollMs: 2 })
  let peeks = 0
  await wakeup.wait(async () => ++peeks === 3)
  expect(peeks).toBe(3)
})

test('what is said while it peeks is heard', async () => {
  const wakeup = new Wakeup({ pollMs: 1, idlePollMs: 2 })
  let peeks = 0
  await wakeup.wait(async () => {
    peeks++
    wakeup.wake()
    return false
  })
  expect(peeks).toBe(1)
})

test('when idle it waits for the beat of the others', async () => {
  const asked: number[] = []
  const untilBeat = (everyMs: number) => {
    asked.push(everyMs)
    return 0
  }
  const wakeup = new Wakeup({ pollMs: 1, idlePollMs: 4, untilBeat })
  let peeks = 0
  await wakeup.wait(async () => ++peeks === 4)
  // After 1 and 2 ms by itself.
  expect(asked).toEqual([4, 4])
})

async function within(waiting: Promise<void>, ms = 50): Promise<'woken' | 'asleep'> {
  const woken = waiting.then(() => 'woken' as const)
  return Promise.race([woken, new Promise<'asleep'>((resolve) => setTimeout(resolve, ms, 'asleep'))])
}
