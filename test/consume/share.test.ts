import { expect, test } from 'vitest'
import type { HeldRun } from '../../src/consume/held-run.ts'
import { Share } from '../../src/consume/share.ts'
import type { LeasedRun } from '../../src/domain/delivery.ts'
import type { StoredEvent } from '../../src/domain/stored-event.ts'
import { defineSubscription, type Subscription } from '../../src/domain/subscription.ts'

test('an idle share asks for no more than it can soon begin, however often it is asked', () => {
  const share = newShare(10)
  for (let look = 0; look < 20; look++) share.want(wanting(look * 50))
  expect(share.want(wanting(2_000))?.eventsMax).toBe(20)
})

test('a share that has worked off all it had asks for twice as much', () => {
  const share = newShare(10)
  expect(share.want(wanting(1_000))?.eventsMax).toBe(20)
  work(share, heldRun(20, 10))
  expect(share.want(wanting(1_010))?.eventsMax).toBe(40)
})

test('a share that is slow goes back to what it can soon begin', () => {
  const share = newShare(10)
  share.want(wanting(1_000))
  for (let round = 1; round <= 5; round++) {
    work(share, heldRun(20, 10))
    share.want(wanting(1_000 + round))
  }
  share.offer(heldRun(1, 10))
  share.finished()
  expect(share.want(wanting(60_000))?.eventsMax).toBe(19)
})

test('large payloads bound what is asked for at once', () => {
  const share = newShare(1_000)
  expect(share.want(wanting(1_000))?.eventsMax).toBe(2_000)
  work(share, heldRun(40, 1_000_000))
  expect(share.want(wanting(1_010))?.eventsMax).toBeLessThan(20)
})

function wanting(now: number) {
  return { now, suspects: true, charsMax: Number.POSITIVE_INFINITY }
}

function newShare(concurrency: number): Share {
  const definition = defineSubscription('handler', ['t'], { name: 'n' })
  const subscription: Subscription = { ...definition, no: 1, id: 'an id', status: 'active', ramp: null }
  return new Share(subscription, () => undefined, concurrency)
}

function work(share: Share, held: HeldRun): void {
  share.take(held)
  while (share.next() !== undefined) share.finished()
}

function heldRun(size: number, chars: number): HeldRun {
  const run: LeasedRun = {
    ...{ id: 1, subscription: 1, token: 1, laneKey: null, suspect: false },
    leasedUntil: new Date(),
    deliveries: [],
  }
  const event = { id: 1, payloadText: 'x'.repeat(chars) } as StoredEvent
  const waiting = Array.from({ length: size }, () => ({ run, event, attempt: 1, failures: 0 }))
  return {
    ...{ run, waiting, lane: false, leasedAt: 0, leasedAtMs: 0, holdsUntil: 1e9, renewAt: 1e9 },
    ...{ underWay: 0, cancelled: [], goesBack: false },
  }
}
