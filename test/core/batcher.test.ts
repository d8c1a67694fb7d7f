import { expect, test } from 'vitest'
import { Batcher } from '../../src/core/batcher.ts'
import { portionsOf } from '../../src/core/portions.ts'
import { createSignal } from '../support/signal.ts'

test('what is added together leaves together, within the limits of a batch', async () => {
  const batches: number[][] = []
  const batcher = new Batcher<number, number>({
    flush: async (items) => {
      batches.push(items)
      return items
    },
    ...{ itemsMax: 3, sizeMax: 10, sizeOf: (item) => item, flushesMax: 1 },
  })
  const items = [1, 2, 3, 4, 5, 6, 20, 1]
  expect(await Promise.all(items.map((item) => batcher.add(item)))).toEqual(items)
  expect(batches).toEqual([[1, 2, 3], [4, 5], [6], [20], [1]])
  expect(batches).toEqual(portionsOf(items, { itemsMax: 3, sizeMax: 10, sizeOf: (item) => item }))
})

test('an answer that comes later holds up nobody else', async () => {
  const later = createSignal()
  const batcher = new Batcher<string, string>({
    flush: async (items) => items.map((item) => (item === 'slow' ? later.given.then(() => 'at last') : item)),
    ...{ itemsMax: 10, flushesMax: 1 },
  })
  let isAnswered = false
  const slow = batcher.add('slow').then((answer) => {
    isAnswered = true
    return answer
  })
  expect(await batcher.add('quick')).toBe('quick')
  expect(await batcher.add('next')).toBe('next')
  expect(isAnswered).toBe(false)
  later.give()
  expect(await slow).toBe('at last')
})
