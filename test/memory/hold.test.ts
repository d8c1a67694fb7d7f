import { afterEach, expect, test, vi } from 'vitest'
import { Hold } from '../../src/memory/hold.ts'

afterEach(() => {
  vi.restoreAllMocks()
})

test('a holder that has not heard of its queue for as long as a claim lasts doubts it, until it hears again', () => {
  const now = vi.spyOn(performance, 'now').mockReturnValue(1_000)
  const hold = new Hold()
  now.mockReturnValue(6_000)
  expect(hold.isDoubtful).toBe(false)
  now.mockReturnValue(6_001)
  expect(hold.isDoubtful).toBe(true)
  hold.kept(5_900)
  expect(hold.isDoubtful).toBe(false)
})

test('what is closed takes nothing, and what is lost stays lost', () => {
  const hold = new Hold()
  expect(hold.isOpen).toBe(true)
  hold.close()
  expect([hold.isOpen, hold.isLost]).toEqual([false, false])
  hold.lose()
  hold.close()
  expect([hold.isOpen, hold.isLost]).toEqual([false, true])
})
