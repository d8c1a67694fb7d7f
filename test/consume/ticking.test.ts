import { setTimeout as delay } from 'node:timers/promises'
import { expect, test, vi } from 'vitest'
import type { Beat } from '../../src/consume/source.ts'
import { leasedRun, openRunner, shareOf } from '../support/runner.ts'
import { createSignal, eventually } from '../support/signal.ts'

/** Longer than a runner looks after what it holds. */
const restMs = 250

test('a runner looks after what it holds, also after a rest and after a stop', async () => {
  const beats: number[] = []
  const may = createSignal()
  const runner = openRunner({
    heartbeat: async (asked: readonly Beat[]) => {
      beats.push(...asked.map(({ run }) => run.id))
      return asked.map(({ run }) => ({ run, renewed: true, cancelled: [] }))
    },
  })
  let isHanging = false
  runner.add(shareOf(1, 'handler', () => (isHanging ? may.given : undefined)))
  runner.start()
  await runner.take([leasedRun(1)], performance.now())
  await delay(restMs)
  expect(beats).toEqual([])
  isHanging = true
  await runner.take([leasedRun(2)], performance.now())
  await eventually('it is marked as begun', () => beats.includes(2))
  await runner.stop(0)
  runner.start()
  await runner.take([leasedRun(3)], performance.now())
  await eventually('the next one is marked as begun', () => beats.includes(3))
  may.give()
})

test('a runner that holds nothing does not tick', async () => {
  const began = vi.spyOn(globalThis, 'setInterval')
  const ended = vi.spyOn(globalThis, 'clearInterval')
  const runner = openRunner({ pollMs: 60_000 })
  runner.add(shareOf(1, 'handler', () => undefined))
  runner.start()
  await delay(restMs)
  expect(began).not.toHaveBeenCalled()
  await runner.take([leasedRun(1)], performance.now())
  await eventually('it rests again', () => ended.mock.calls.length > 0)
  expect(began).toHaveBeenCalledTimes(1)
  expect(ended).toHaveBeenCalledWith(began.mock.results[0]?.value)
  vi.restoreAllMocks()
})
