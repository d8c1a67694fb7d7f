import fc from 'fast-check'
import { expect, test } from 'vitest'
import { deliveryId, eventShard, parseDeliveryId, shardFirstId, uuidv7 } from '../../src/domain/id.ts'

const v7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const key = fc.record({
  createdAtMs: fc.integer({ min: 0, max: 2 ** 48 - 1 }),
  eventId: fc.maxSafeInteger().map((id) => Math.max(1, Math.abs(id))),
  subscriptionNo: fc.integer({ min: 0, max: 2 ** 21 - 1 }),
})

test('a delivery id is a UUIDv7 and tells what it was made of', () => {
  fc.assert(
    fc.property(key, (parts) => {
      const id = deliveryId(parts)
      expect(id).toMatch(v7)
      expect(parseDeliveryId(id)).toEqual(parts)
      expect(parseDeliveryId(id.toUpperCase())).toEqual(parts)
    }),
  )
})

test('the bits lie where the layout says', () => {
  fc.assert(
    fc.property(key, (parts) => {
      const bits = BigInt(`0x${deliveryId(parts).replaceAll('-', '')}`)
      const eventId = BigInt(parts.eventId)
      expect(bits >> 80n).toBe(BigInt(parts.createdAtMs))
      expect((bits >> 64n) & 0xfffn).toBe(eventId >> 41n)
      expect((bits >> 21n) & (2n ** 41n - 1n)).toBe(eventId & (2n ** 41n - 1n))
      expect(bits & (2n ** 21n - 1n)).toBe(BigInt(parts.subscriptionNo))
    }),
  )
  expect(deliveryId({ createdAtMs: 1, eventId: 1, subscriptionNo: 1 })).toBe(
    '00000000-0001-7000-8000-000000200001',
  )
  expect(deliveryId({ createdAtMs: 2 ** 48 - 1, eventId: 2 ** 53 - 1, subscriptionNo: 2 ** 21 - 1 })).toBe(
    'ffffffff-ffff-7fff-bfff-ffffffffffff',
  )
})

test('delivery ids sort by time, then event, then subscription', () => {
  fc.assert(
    fc.property(key, key, (a, b) => {
      const order =
        a.createdAtMs - b.createdAtMs || a.eventId - b.eventId || a.subscriptionNo - b.subscriptionNo
      expect(Math.sign(compare(deliveryId(a), deliveryId(b)))).toBe(Math.sign(order))
    }),
  )
})

test.each([
  '',
  'no uuid',
  '00000000-0001-4000-8000-000000200001',
  '00000000-0001-7000-c000-000000200001',
  '00000000-0001-7000-8000-000000000001',
  '00000000-0001-7000-8000-000000200001\n',
])('%j is no delivery id', (text) => {
  expect(parseDeliveryId(text)).toBeUndefined()
})

test.each([
  { createdAtMs: -1 },
  { createdAtMs: 2 ** 48 },
  { createdAtMs: 0.5 },
  { eventId: 0 },
  { eventId: 2 ** 53 },
  { subscriptionNo: -1 },
  { subscriptionNo: 2 ** 21 },
])('a delivery id cannot be made of %j', (bad) => {
  expect(() => deliveryId({ createdAtMs: 1, eventId: 1, subscriptionNo: 1, ...bad })).toThrow(
    expect.objectContaining({
      code: 'BAD_OPTION',
      details: expect.objectContaining({ option: Object.keys(bad)[0] }),
    }),
  )
})

test('UUIDs of one process only go up, also when the clock stands or goes back', () => {
  const startMs = 2_000_000_000_000
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 2, maxLength: 50 }), (clock) => {
      const ids = clock.map((ms) => uuidv7(startMs + ms))
      for (const id of ids) expect(id).toMatch(v7)
      expect(new Set(ids).size).toBe(ids.length)
      expect(ids).toEqual([...ids].sort(compare))
    }),
  )
})

test('a UUID begins with its time', () => {
  const nowMs = 2_100_000_000_123
  expect(parseInt(uuidv7(nowMs).replaceAll('-', '').slice(0, 12), 16)).toBe(nowMs)
})

test('the shard of an event is in its id', () => {
  expect(shardFirstId(0)).toBe(1)
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 1023 }), (shard) => {
      expect(eventShard(shardFirstId(shard))).toBe(shard)
      expect(eventShard(shardFirstId(shard) + 2 ** 43 - 2)).toBe(shard)
      expect(Number.isSafeInteger(shardFirstId(shard) + 2 ** 43 - 2)).toBe(true)
    }),
  )
  expect(() => shardFirstId(1024)).toThrow(expect.objectContaining({ code: 'BAD_OPTION' }))
})

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
