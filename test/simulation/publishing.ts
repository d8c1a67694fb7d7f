import { type EventInput, type NewEvent, parseEvent } from '../../src/domain/event.ts'
import type { Subscription } from '../../src/domain/subscription.ts'
import { type IdleRunner, type Published, publish, publishIn } from '../../src/engine/publish.ts'
import { expectEqual, expectTrue } from './check.ts'
import type { EventShape, PublishCommand } from './commands.ts'
import { nextToken, take } from './leasing.ts'
import type { Delivery } from './model.ts'
import type { Simulation } from './simulation.ts'
import { laneOrder, type Snapshot } from './snapshot.ts'
import type { OpenTransaction, Policy } from './stage.ts'

/** What an open transaction has published so far: nobody else knows of it. */
export interface OpenPublishes {
  readonly transaction: OpenTransaction
  readonly eventIds: number[]
  readonly deliveries: Delivery[]
  end(how: 'commit' | 'rollback'): Promise<void>
}

export async function publishEvents(
  simulation: Simulation,
  { events: shapes, transaction: slot, idle = null }: PublishCommand,
): Promise<void> {
  const events = shapes.map((shape) => parseEvent(inputOf(simulation, shape, slot)))
  const request = { events, wake: null }
  const open = slot === null ? undefined : (simulation.open[slot] ?? (await openIn(simulation, slot)))
  const { published: answers, runs } =
    open === undefined
      ? await publish(
          simulation.db,
          idle === null ? request : { ...request, idle: waiting(simulation, idle) },
        )
      : { published: await publishIn(open.transaction, simulation.db, request), runs: [] }
  expectEqual('answers to a publish', answers.length, events.length)

  const transaction = slot === null ? ++simulation.transactions : -1 - slot
  const deliveries: Delivery[] = []
  const eventIds: number[] = []
  for (const [position, event] of events.entries()) {
    const answer = answers[position] as Published
    if (isRepeat(simulation, event, answer, slot)) continue
    eventIds.push(answer.id)
    deliveries.push(
      ...owed(simulation, { event, shape: shapes[position] as EventShape, answer, transaction }),
    )
  }
  if (open !== undefined) {
    open.eventIds.push(...eventIds)
    open.deliveries.push(...deliveries)
    return
  }
  simulation.model.eventIds.push(...eventIds)
  simulation.model.commit(deliveries, simulation.step)
  const until = simulation.model.now + simulation.after(handedMinutes)
  for (const run of runs) take(simulation, run, { until, worker: idle as number, begun: false })
}

const handedMinutes = 2

function waiting(simulation: Simulation, worker: number): IdleRunner {
  const handlers = simulation.stage.policies.filter((policy) => policy.via === 'handler')
  const leaseMs = simulation.after(handedMinutes)
  return {
    subscriptions: handlers.map(({ no }) => ({ no, leaseMs }) as Subscription),
    token: nextToken(),
    worker: simulation.workers[worker] as number,
  }
}

/** All that is due, all that has arrived and all lanes with room move on in one call. */
export async function admitAll(simulation: Simulation, process: number): Promise<void> {
  const { busy, drained } = (await simulation.admitters[process]?.admit()) ?? { busy: true, drained: false }
  expectTrue('one admission at a time is never refused', !busy)
  expectTrue('an admission drains so few', drained)
  followAdmission(simulation, await simulation.look())
}

function inputOf(simulation: Simulation, shape: EventShape, slot: number | null): EventInput {
  const key = shape.idempotency?.key
  const used = key === undefined ? undefined : simulation.idempotency.get(key)
  // Whoever uses a key of an open transaction waits for its end: sequential commands would wait for ever.
  const waits = used !== undefined && used.transaction !== null && used.transaction !== slot
  if (shape.idempotency !== null && !waits) {
    const { variant } = shape.idempotency
    return { type: 'a.b', payload: variant, orderingKey: shape.key, idempotencyKey: shape.idempotency.key }
  }
  const { model } = simulation
  const at = (minutes: number) =>
    minutes === 0 ? null : simulation.timeAt(model.now + simulation.after(minutes))
  return {
    type: shape.type,
    title: 'simulated',
    payload: null,
    tags: shape.type === null ? (shape.tags ?? ['red']) : shape.tags,
    orderingKey: shape.key,
    concurrencyKey: shape.gate,
    runAt: at(shape.delay),
    expiresAt: at(shape.lifetime),
    maxRetries: shape.maxRetries,
  }
}

async function openIn(simulation: Simulation, slot: number): Promise<OpenPublishes> {
  const { model, idempotency } = simulation
  const transaction = await simulation.stage.begin()
  const eventIds: number[] = []
  const deliveries: Delivery[] = []
  const number = ++simulation.transactions
  const open: OpenPublishes = {
    transaction,
    eventIds,
    deliveries,
    async end(how) {
      await transaction.end(how)
      simulation.open[slot] = undefined
      for (const [key, used] of idempotency) {
        if (used.transaction !== slot) continue
        if (how === 'commit') idempotency.set(key, { ...used, transaction: null })
        else idempotency.delete(key)
      }
      if (how === 'rollback') return
      for (const delivery of deliveries) delivery.published.transaction = number
      model.eventIds.push(...eventIds)
      model.commit(deliveries, simulation.step)
    },
  }
  simulation.open[slot] = open
  return open
}

/** The same key again: the first answer for the same event, a conflict for another. Nothing is stored. */
function isRepeat(
  { idempotency }: Simulation,
  event: NewEvent,
  answer: Published,
  slot: number | null,
): boolean {
  const print = JSON.stringify(event)
  const first = event.idempotencyKey === null ? undefined : idempotency.get(event.idempotencyKey)
  expectEqual(
    `whether the publish of ${event.idempotencyKey} is a repeat`,
    answer.replayed,
    first !== undefined,
  )
  if (first !== undefined) {
    expectEqual('the id of the first publish', answer.id, first.eventId)
    expectEqual('conflict with the first publish', answer.conflict, first.print !== print)
    return true
  }
  if (event.idempotencyKey !== null) {
    idempotency.set(event.idempotencyKey, { eventId: answer.id, print, transaction: slot })
  }
  return false
}

interface NewDelivery {
  readonly event: NewEvent
  readonly shape: EventShape
  readonly answer: Published
  readonly transaction: number
}

function owed(simulation: Simulation, { event, shape, answer, transaction }: NewDelivery): Delivery[] {
  const { model, step } = simulation
  const policies = simulation.stage.policies.filter((policy) => wants(policy, event))
  expectEqual(
    `who is owed event ${answer.id}`,
    answer.owed,
    policies.map((policy) => policy.no),
  )
  const plain = event.idempotencyKey !== null
  const dueAt = plain || shape.delay === 0 ? null : model.now + simulation.after(shape.delay)
  const expiresAt = plain || shape.lifetime === 0 ? null : model.now + simulation.after(shape.lifetime)
  const place = ++simulation.places
  return policies.map((policy) => {
    const gate = policy.keyConcurrency === null ? null : event.concurrencyKey
    const ordered = event.orderingKey !== null || gate !== null
    return {
      eventId: answer.id,
      policy,
      key: event.orderingKey,
      gate,
      tags: policy.via === 'pull' ? event.tags : null,
      failuresMax: (policy.no === 0 ? event.maxRetries : null) ?? policy.failuresMax,
      published: { started: step, committed: step, transaction, place },
      state: dueAt !== null ? (ordered ? 'delayed' : 'deferred') : ordered ? 'arrived' : 'waiting',
      dueAt,
      expiresAt,
      attempts: 0,
      failures: 0,
      failuresOr: null,
      audits: 0,
      begun: false,
      suspect: false,
      fence: null,
      charged: false,
      told: false,
      settledBy: new Map(),
    }
  })
}

/** An event with tags is work; one with a type is owed to every subscription that wants it. */
function wants({ no, types }: Policy, { type, tags }: NewEvent): boolean {
  if (no === 0) return tags !== null
  return (
    type !== null &&
    types.some((one) => one === type || (one.endsWith('.*') && type.startsWith(one.slice(0, -1))))
  )
}

export function followAdmission({ model }: Simulation, after: Snapshot): void {
  const isDue = (one: Delivery) => one.dueAt !== null && one.dueAt <= model.now
  const woken = model.deliveries.filter((one) => one.state === 'deferred' && isDue(one))
  for (const delivery of woken) Object.assign(delivery, { state: 'waiting', dueAt: null })

  const joining = model.deliveries.filter((one) => one.state === 'delayed' && isDue(one))
  const arrived = model.deliveries.filter((one) => one.state === 'arrived')
  for (const delivery of [...arrived, ...joining]) Object.assign(delivery, { state: 'waiting', dueAt: null })
  const keyed = [...arrived, ...joining].filter((one) => one.key !== null)
  for (const lane of new Set(keyed.map((one) => model.lane(one)))) {
    const entering = keyed.filter((one) => model.lane(one) === lane)
    const tail = observedTail(after, lane.order, entering)
    checkOrder(tail.filter((one) => !joining.includes(one)))
    lane.order.push(...tail)
  }
}

/** Which order the engine gave to those that entered a lane together. */
function observedTail(
  after: Snapshot,
  order: readonly Delivery[],
  entering: readonly Delivery[],
): Delivery[] {
  const { policy, key } = entering[0] as Delivery
  const observed = laneOrder(after, policy.no, key as string)
  const before = order.map((one) => one.eventId)
  expectEqual(`lane ${policy.no}/${key} keeps the order it has`, observed.slice(0, before.length), before)
  const tail = observed.slice(before.length)
  expectEqual(
    `who entered lane ${policy.no}/${key}`,
    sorted(tail),
    sorted(entering.map((one) => one.eventId)),
  )
  return tail.map((id) => entering.find((one) => one.eventId === id) as Delivery)
}

function sorted(ids: readonly number[]): number[] {
  return [...ids].sort((a, b) => a - b)
}

/** Committed before the other's publish began, or published before it in the same transaction: comes first. */
function checkOrder(tail: readonly Delivery[]): void {
  for (const [position, later] of tail.entries()) {
    for (const earlier of tail.slice(0, position)) {
      const a = earlier.published
      const b = later.published
      const wrong = a.transaction === b.transaction ? b.place < a.place : b.committed < a.started
      expectTrue(
        `event ${later.eventId} was published before ${earlier.eventId}, and must stand before it in its lane`,
        !wrong,
      )
    }
  }
}
