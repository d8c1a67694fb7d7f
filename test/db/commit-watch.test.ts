import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { CommitWatch, type ServerProcess } from '../../src/db/commit-watch.ts'
import type { Loan } from '../../src/db/loan.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

/** A commit under way on process 7, and what each sample of the server shows; after the last nobody waits. */
function watchCommit(...samples: (readonly ServerProcess[] | Error)[]) {
  const seen: string[] = []
  const watch = new CommitWatch({
    ask: async () => {
      const sample = samples.shift() ?? []
      if (sample instanceof Error) throw sample
      return sample
    },
    changed: (isStalled) => void seen.push(isStalled ? 'stalled' : 'goes on'),
    rest: () => undefined,
  })
  const loan = { serverProcess: 7, destroy: () => void seen.push('cut') } as unknown as Loan
  void watch.follow(loan, () => new Promise(() => undefined))
  return { watch, seen, samples }
}

const waiting = (waitingTransaction: string, pid = 7): ServerProcess => ({ pid, waitingTransaction })

test('a slow statement that one sample meets as its standby confirms it is not taken for a stall', async () => {
  const { watch, seen, samples } = watchCommit([waiting('1')], [waiting('2')], [waiting('3', 8)])
  await vi.advanceTimersByTimeAsync(5_000)
  expect([seen, samples]).toEqual([[], []])
  expect(watch.isStalled).toBe(false)
  await watch.stop()
})

test('a commit that two samples in a row show waiting stalls, is cut, and is known within two seconds', async () => {
  const { watch, seen } = watchCommit([waiting('1')], [waiting('1'), waiting('2', 8)])
  await vi.advanceTimersByTimeAsync(2_000)
  expect(seen.slice(0, 2)).toEqual(['stalled', 'cut'])
  await watch.stop()
})

test('behind a pooler, which hides its process, a commit that is slow while others stall is cut', async () => {
  const { watch, seen } = watchCommit([waiting('1', 8)], [waiting('1', 8)], [waiting('1', 8)])
  await vi.advanceTimersByTimeAsync(2_000)
  expect(seen.slice(0, 2)).toEqual(['stalled', 'cut'])
  await watch.stop()
})

test('a slow statement that waits for no standby is not cut while others stall', async () => {
  const busy = { pid: 7, waitingTransaction: null }
  const { watch, seen } = watchCommit([busy, waiting('1', 8)], [busy, waiting('1', 8)], [busy])
  await vi.advanceTimersByTimeAsync(5_000)
  expect(seen).toEqual(['stalled', 'goes on'])
  await watch.stop()
})

test('commits go on again as soon as those that stalled wait no more, whoever else waits by then', async () => {
  const own = { pid: 7, waitingTransaction: null }
  const { watch, seen } = watchCommit([own, waiting('1', 8)], [own, waiting('1', 8)], [own, waiting('2', 8)])
  await vi.advanceTimersByTimeAsync(5_000)
  expect(seen).toEqual(['stalled', 'goes on'])
  await watch.stop()
})

test('a sample that fails says nothing: a commit that waits before and after it stalls', async () => {
  const { watch, seen } = watchCommit([waiting('1')], new Error('no connection'), [waiting('1')])
  await vi.advanceTimersByTimeAsync(5_000)
  expect(seen).toEqual(['stalled', 'cut', 'goes on'])
  await watch.stop()
})
