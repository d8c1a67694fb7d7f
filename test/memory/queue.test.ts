import { describe, expect, test } from 'vitest'
import { storedEvent } from '../../src/domain/stored-event.ts'
import type { Subscription } from '../../src/domain/subscription.ts'
import type { Entry, MemoryDelivery } from '../../src/memory/entry.ts'
import { Heap } from '../../src/memory/heap.ts'
import type { Page } from '../../src/memory/ledger.ts'
import { MemoryQueue } from '../../src/memory/memory-queue.ts'
// @ts-expect-error plain JavaScript, as the scenarios are
import { createRandom } from '../crash/support/random.js'

const subscription = {
  no: 1,
  name: 'm',
  leaseMs: 30_000,
  queue: { maxQueueDepth: 1_000, highWatermark: 800, persistenceThreshold: 10 },
} as Subscription

test('a heap gives out the lowest rank first', () => {
  const random = createRandom(1)
  const heap = new Heap<number>((value) => value)
  const values = Array.from({ length: 500 }, () => random.integer(0, 99))
  for (const value of values) heap.push(value)
  const given = values.map(() => heap.pop())
  expect(given).toEqual([...values].sort((a, b) => a - b))
  expect(heap.pop()).toBeUndefined()
})

test('the age of the oldest is not too high by as much as the clock of the database was set back', () => {
  // The clock in memory never goes back: it is an hour ahead of the one by which the event was published.
  const now = () => 7_200_000
  const queue = new MemoryQueue({
    ...{ subscription, token: 1, checkpoint: 0, claimedAt: performance.now(), now, emptied: () => undefined },
  })
  const event = storedEvent({ id: 1, type: 't', payloadText: '1', orderingKey: null, createdAtMs: 3_600_000 })
  queue.add({ event, laneKey: null })
  expect(queue.figures.oldestSeconds).toBeLessThan(600)
  expect(queue.figures.oldestSeconds).toBeGreaterThanOrEqual(0)
})

test('the age of what was loaded counts from when it was published', () => {
  const queue = new MemoryQueue({
    ...{ subscription, token: 1, checkpoint: 0, claimedAt: performance.now(), emptied: () => undefined },
    now: () => 7_200_000,
  })
  const event = storedEvent({ id: 1, type: 't', payloadText: '1', orderingKey: null, createdAtMs: 3_600_000 })
  const standing = { attempts: 0, failures: 0, dueAtMs: null, lastError: null, isSuspect: false }
  queue.restore({ event, laneKey: null }, standing)
  expect(queue.figures.oldestSeconds).toBeGreaterThanOrEqual(3_600)
})

describe('whatever is done to a queue', () => {
  test.each([1, 2, 3, 4, 5, 6])(
    'it keeps its lanes, and loses only what was not persisted (seed %i)',
    (seed) => {
      const world = new World(seed)
      for (let step = 0; step < 4_000; step++) world.step()
      world.finish()
      expect(world.faults).toEqual([])
      expect(world.crashes).toBeGreaterThan(5)
      expect(world.completed.size).toBeGreaterThan(500)
    },
  )
})

/** A queue, what the database would have of it, and what must hold of both. */
class World {
  readonly faults: string[] = []
  readonly completed = new Set<number>()
  crashes = 0
  readonly #random
  #queue: MemoryQueue
  #now = 0
  #ids = 0
  /** In the database: what is unsettled, and up to where all is settled. */
  #rows = new Map<number, { laneKey: string | null; failures: number }>()
  #checkpoint = 0
  /** What was unsettled, and what settled, when the last page was put together that was written. */
  #persisted = { unsettled: new Set<number>(), settled: new Set<number>() }
  #out: MemoryDelivery[] = []
  readonly #keys = new Map<number, string | null>()

  constructor(seed: number) {
    this.#random = createRandom(seed)
    this.#queue = this.#open()
  }

  step(): void {
    const roll = this.#random.next()
    if (roll < 0.3) this.#publish()
    else if (roll < 0.6) this.#lease()
    else if (roll < 0.9) this.#settle()
    else if (roll < 0.98) this.#persist()
    else if (roll < 0.985) this.#crash()
    else this.#now += 1_000
  }

  /** Everything that is left can be done. */
  finish(): void {
    for (let turn = 0; turn < 5_000 && this.#queue.depth > 0; turn++) {
      this.#now += 10_000
      this.#lease()
      while (this.#out.length > 0) this.#complete(this.#out[0] as MemoryDelivery)
    }
    if (this.#queue.depth > 0) this.faults.push(`${this.#queue.depth} cannot be leased`)
    if (this.#queue.ledger.checkpoint !== this.#ids) this.faults.push('the checkpoint is behind')
    if (['k1', 'k2', 'k3', 'k4'].some((key) => this.#queue.hasLane(key)))
      this.faults.push('an empty lane is left')
  }

  #open(): MemoryQueue {
    const options = { subscription, token: 1, checkpoint: this.#checkpoint, emptied: () => undefined }
    return new MemoryQueue({ ...options, claimedAt: Number.POSITIVE_INFINITY, now: () => this.#now })
  }

  #publish(): void {
    const id = ++this.#ids
    const laneKey = this.#random.chance(0.5) ? `k${this.#random.integer(1, 4)}` : null
    this.#keys.set(id, laneKey)
    this.#queue.add({ event: eventOf(id), laneKey })
  }

  #lease(): void {
    const { integer } = this.#random
    const want = {
      subscription: 1,
      eventsMax: integer(1, 6),
      runsMax: integer(1, 3),
      laneMax: 3,
      suspects: true,
    }
    for (const run of this.#queue.lease(want, 30_000)) {
      for (const delivery of run.deliveries) {
        this.#check(delivery)
        this.#out.push(delivery)
      }
    }
  }

  #check({ event, run }: MemoryDelivery): void {
    const key = this.#keys.get(event.id) ?? null
    if (this.completed.has(event.id)) this.faults.push(`${event.id} runs again`)
    if (this.#out.some((other) => other.event.id === event.id)) this.faults.push(`${event.id} is out twice`)
    if (key === null) return
    const others = this.#out.filter((one) => this.#keys.get(one.event.id) === key)
    if (others.some((one) => one.run !== run)) this.faults.push(`lane ${key} is out twice`)
    const isYounger = (one: MemoryDelivery) => one.event.id > event.id
    if (others.some(isYounger)) this.faults.push(`lane ${key} is out of order at ${event.id}`)
  }

  /** Of a lane only its head can be settled, as the runner does it. */
  #settle(): void {
    const heads = this.#out.filter(
      (one) => one.run.laneKey === null || this.#out.find(({ run }) => run === one.run) === one,
    )
    if (heads.length === 0) return
    const delivery = this.#random.pick(heads)
    const roll = this.#random.next()
    if (roll < 0.7) this.#complete(delivery)
    else if (roll < 0.9) this.#postpone(delivery)
    else {
      this.#queue.releaseRun(delivery.run as never)
      this.#forgetRun(delivery)
    }
  }

  #complete(delivery: MemoryDelivery): void {
    this.#queue.finish(delivery.entry, { as: 'completed', executionMs: 1 })
    this.completed.add(delivery.event.id)
    this.#out = this.#out.filter((one) => one !== delivery)
  }

  #postpone(delivery: MemoryDelivery): void {
    const dueAtMs = this.#now + this.#random.integer(0, 5_000)
    const change = { attempts: delivery.attempt, failures: 1, lastError: 'no', dueAtMs }
    this.#queue.postpone(delivery, change, { executionMs: 1, isFailure: true })
    if (delivery.run.laneKey !== null) this.#forgetRun(delivery)
    else this.#out = this.#out.filter((one) => one !== delivery)
  }

  #forgetRun({ run }: MemoryDelivery): void {
    this.#out = this.#out.filter((one) => one.run !== run)
  }

  #persist(): void {
    const { ledger } = this.#queue
    const page = ledger.take({ rowsMax: 1_000, charsMax: 1_000_000 })
    const unsettled = new Set(ledger.first(10_000).map(({ event }) => event.id))
    const settled = new Set(this.completed)
    // It may be written or not, and its answer may be lost either way; meanwhile others go on.
    const isWritten = this.#random.chance(0.8)
    const isAnswered = isWritten && this.#random.chance(0.8)
    if (isWritten) this.#write(page)
    if (this.#random.chance(0.5)) this.#settle()
    if (isAnswered) ledger.saved(page)
    else ledger.failed(page)
    if (isWritten) this.#persisted = { unsettled, settled }
    const covers = [...this.#rows.keys()].filter((id) => id > this.#checkpoint)
    const missing = [...this.#persisted.unsettled].filter((id) => !this.#rows.has(id))
    if (missing.length > 0) this.faults.push(`not persisted: ${missing}`)
    const again = covers.filter((id) => this.#persisted.settled.has(id))
    if (again.length > 0) this.faults.push(`settled and still there: ${again}`)
    if (isAnswered && this.#random.chance(0.3)) this.#persistRest()
  }

  /** With nothing under way: from then on the database has everything as it stands. */
  #persistRest(): void {
    const { ledger } = this.#queue
    const unsettled = ledger.first(10_000)
    const page = ledger.take({ rowsMax: 1_000, charsMax: 1_000_000 })
    this.#write(page)
    ledger.saved(page)
    this.#persisted = {
      unsettled: new Set(unsettled.map(({ event }) => event.id)),
      settled: new Set(this.completed),
    }
    const isForgotten = ({ event, failures }: Entry) => this.#rows.get(event.id)?.failures !== failures
    const forgotten = unsettled.filter(isForgotten).map(({ event }) => event.id)
    if (forgotten.length > 0) this.faults.push(`failures not written: ${forgotten}`)
  }

  #write({ checkpoint, added, changed, settled }: Page): void {
    this.#checkpoint = Math.max(this.#checkpoint, checkpoint)
    const isNew = new Set(added)
    for (const { event, lane, failures } of added)
      this.#rows.set(event.id, { laneKey: lane?.key ?? null, failures })
    for (const entry of changed) {
      const row = this.#rows.get(entry.event.id)
      if (row !== undefined && !isNew.has(entry)) row.failures = entry.failures
    }
    for (const id of settled) this.#rows.delete(id)
    for (const id of this.#rows.keys()) if (id <= this.#checkpoint) this.#rows.delete(id)
  }

  /** What was done since the last persist is done again, and what came since is lost. */
  #crash(): void {
    this.crashes++
    this.#out = []
    this.#queue = this.#open()
    this.completed.clear()
    for (const id of this.#persisted.settled) this.completed.add(id)
    for (const [id, { laneKey, failures }] of [...this.#rows].sort(([a], [b]) => a - b)) {
      const standing = { attempts: failures, failures, dueAtMs: null, lastError: null, isSuspect: false }
      this.#queue.restore({ event: eventOf(id), laneKey }, standing)
    }
    this.#ids = Math.max(this.#ids, ...this.#rows.keys())
    const lost = [...this.#persisted.unsettled].filter((id) => !this.#rows.has(id))
    if (lost.length > 0) this.faults.push(`lost: ${lost}`)
  }
}

function eventOf(id: number) {
  return storedEvent({ id, type: 't', payloadText: '1', orderingKey: null, createdAtMs: 0 })
}
