import { describe, expect, test } from 'vitest'
import { LaneChecker, type LanePlace, sign, verify } from '../../../src/webhooks/index.ts'

const secret = `whsec_${'A'.repeat(32)}`
const lane = { 'posthorn-ordering-key': 'customer-3', 'posthorn-sequence': '7' }

function read(headers: Record<string, string>) {
  return verify('{}', { ...sign('{}', { id: 'a', secrets: secret }), ...headers }, secret)
}

describe('what a delivery says of itself', () => {
  test('the event, the attempt and its place in the lane', () => {
    const headers = {
      'Posthorn-Event-Id': '812',
      'posthorn-attempt': '2',
      'posthorn-ordering-key': 'K%C3%B6ln%20%2F%2050%25',
      'posthorn-sequence': '7',
      'posthorn-previous-sequence': '4',
      'posthorn-skipped': '5-6',
      'posthorn-lane-epoch': '1780000000',
      'posthorn-out-of-order': 'true',
      'posthorn-replay': 'true',
    }
    expect(read(headers)).toMatchObject({
      eventId: 812,
      attempt: 2,
      lane: {
        orderingKey: 'Köln / 50%',
        sequence: 7,
        previousSequence: 4,
        skipped: [5, 6],
        epoch: 1780000000,
        outOfOrder: true,
        replay: true,
      },
    })
  })

  test('the first of a lane has little to say', () => {
    expect(read(lane).lane).toEqual({
      orderingKey: 'customer-3',
      sequence: 7,
      previousSequence: 0,
      skipped: [],
      epoch: 0,
      outOfOrder: false,
      replay: false,
    })
  })

  test.each([
    ['5', [5]],
    ['5-9', [5, 6, 7, 8, 9]],
    ['5,7-9', [5, 7, 8, 9]],
    ['7-9, 5', [5, 7, 8, 9]],
    ['5,5-6', [5, 6]],
    ['9-5', []],
    ['5,', []],
    ['5;6', []],
    ['-5', []],
    ['x', []],
    ['1-9007199254740991', []],
    ['1-100000', Array.from({ length: 100_000 }, (_, index) => index + 1)],
    ['1-100001', []],
    ['1-60000,100001-160000', []],
  ])('posthorn-skipped: %s', (text, skipped) => {
    expect(read({ ...lane, 'posthorn-skipped': text }).lane?.skipped).toEqual(skipped)
  })

  test('what cannot be read counts as not said, and refuses nothing', () => {
    const bad = { 'posthorn-event-id': '1e3', 'posthorn-attempt': '9007199254740993' }
    expect(read(bad)).toMatchObject({ eventId: null, attempt: null, lane: null })
    expect(read({ ...lane, 'posthorn-ordering-key': '%E0%A4' }).lane).toBeNull()
    expect(read({ ...lane, 'posthorn-sequence': '0' }).lane).toBeNull()
    expect(read({ ...lane, 'posthorn-sequence': '-1' }).lane).toBeNull()
    expect(read({ ...lane, 'posthorn-out-of-order': 'false' }).lane?.outOfOrder).toBe(false)
  })
})

describe('the checker of lanes', () => {
  const place = (sequence: number, more: Partial<LanePlace> = {}): LanePlace => ({
    orderingKey: 'k',
    sequence,
    previousSequence: sequence - 1,
    skipped: [],
    epoch: 1,
    outOfOrder: false,
    replay: false,
    ...more,
  })
  const check = (checker: LaneChecker, ...places: LanePlace[]) => places.map((one) => checker.check(one))

  test('follows a lane, and takes the last one again for a repeat', () => {
    const verdicts = check(new LaneChecker(), place(1), place(1), place(2), place(3), place(3), place(4))
    expect(verdicts).toEqual(['next', 'repeat', 'next', 'next', 'repeat', 'next'])
  })

  test('sees what is missing, once', () => {
    expect(check(new LaneChecker(), place(1), place(3), place(4))).toEqual(['next', 'gap', 'next'])
    expect(check(new LaneChecker(), place(2))).toEqual(['gap'])
  })

  test('lets pass what was declared skipped, and only that', () => {
    const skipping = (...skipped: number[]) => place(5, { previousSequence: 1, skipped })
    expect(check(new LaneChecker(), place(1), skipping(2, 3, 4))).toEqual(['next', 'next'])
    expect(check(new LaneChecker(), place(1), skipping(2, 4))).toEqual(['next', 'gap'])
    expect(check(new LaneChecker(), place(1), skipping(1, 2, 5, 6))).toEqual(['next', 'gap'])
    expect(check(new LaneChecker(), place(3, { skipped: [1, 2] }))).toEqual(['next'])
  })

  test('what was seen and then given up by the sender is no gap', () => {
    const verdicts = check(
      new LaneChecker(),
      place(1),
      place(2),
      place(3, { previousSequence: 1, skipped: [2] }),
    )
    expect(verdicts).toEqual(['next', 'next', 'next'])
  })

  test('catches two that were swapped', () => {
    expect(check(new LaneChecker(), place(1), place(3), place(2))).toEqual(['next', 'gap', 'out-of-order'])
  })

  test('one that was redriven changes nothing for those behind it', () => {
    const redriven = place(2, { outOfOrder: true })
    const verdicts = check(
      new LaneChecker(),
      place(1),
      place(3, { skipped: [2] }),
      redriven,
      redriven,
      place(4),
    )
    expect(verdicts).toEqual(['next', 'next', 'out-of-order', 'out-of-order', 'next'])
  })

  test('a later epoch begins at 1, and one before it is late', () => {
    const verdicts = check(
      new LaneChecker(),
      place(9, { skipped: [1, 2, 3, 4, 5, 6, 7, 8] }),
      place(1, { epoch: 2 }),
    )
    expect(verdicts).toEqual(['next', 'next'])
    expect(check(new LaneChecker(), place(1, { epoch: 2 }), place(2))).toEqual(['next', 'out-of-order'])
    expect(check(new LaneChecker(), place(1), place(2, { epoch: 2 }))).toEqual(['next', 'gap'])
  })

  test('keys and subscribers are lanes of their own', () => {
    const checker = new LaneChecker()
    expect(check(checker, place(1), place(1, { orderingKey: 'other' }))).toEqual(['next', 'next'])
    expect(checker.check(place(1), { subscriber: 'b' })).toBe('next')
    expect(checker.check(place(2))).toBe('next')
    expect(checker.check(place(1), { subscriber: 'b' })).toBe('repeat')
  })

  test('one that starts late takes the first it sees as it comes', () => {
    const late = new LaneChecker({ start: 'anywhere' })
    expect(check(late, place(2, { outOfOrder: true }), place(57), place(58), place(60))).toEqual([
      'out-of-order',
      'next',
      'next',
      'gap',
    ])
  })

  test('forgets the lane that was idle longest', () => {
    const checker = new LaneChecker({ lanesMax: 2 })
    const other = (orderingKey: string) => place(1, { orderingKey })
    expect(check(checker, other('a'), other('b'), other('a'), other('c'))).toEqual([
      'next',
      'next',
      'repeat',
      'next',
    ])
    expect(check(checker, other('a'), other('b'))).toEqual(['repeat', 'next'])
    expect(() => new LaneChecker({ lanesMax: 0 })).toThrow('Expected lanesMax to be 1 or more, got 0.')
  })
})
