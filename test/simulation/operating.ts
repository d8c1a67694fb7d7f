import {
  blockingLetter,
  buryWaiting,
  redrive,
  retryWaiting,
  unblockLane,
} from '../../src/deliveries/repair.ts'
import { reset } from '../../src/deliveries/reset.ts'
import { Admitter } from '../../src/engine/admit.ts'
import { cancel } from '../../src/engine/cancel.ts'
import { expectEqual } from './check.ts'
import { isFinished, type Lane, type Letter } from './model.ts'
import { admitAll } from './publishing.ts'
import type { Simulation } from './simulation.ts'

/** Picks among all letters, those already redriven included: they are left alone. */
export async function redriveLetters(simulation: Simulation, indices: readonly number[]): Promise<void> {
  const { model } = simulation
  if (model.letters.length === 0) return
  const picked = new Set(indices.map((index) => model.letters[index % model.letters.length] as Letter))
  await redriveThese(
    simulation,
    [...picked].filter((letter) => !letter.redriven),
  )
}

async function redriveThese(simulation: Simulation, letters: readonly Letter[]): Promise<void> {
  const { db, model, snapshot } = simulation
  const redrivenBefore = snapshot.letters.filter((row) => row.redriven).slice(0, 1)
  const rows = letters.map(({ delivery }) =>
    snapshot.letters.find(
      (row) => row.eventId === delivery.eventId && row.subscription === delivery.policy.no && !row.redriven,
    ),
  )
  const ids = [...rows, ...redrivenBefore].flatMap((row) => (row === undefined ? [] : [row.id]))
  const answers = await redrive(db, { deadLetterIds: ids, by: 'test' })
  const byAge = letters.toSorted((a, b) => a.delivery.eventId - b.delivery.eventId)
  expectEqual(
    'redriven',
    answers.map((one) => `${one.eventId}/${one.subscription}`).sort(),
    byAge.map(({ delivery }) => `${delivery.eventId}/${delivery.policy.no}`).sort(),
  )
  const transaction = ++simulation.transactions
  for (const letter of byAge) {
    model.redrive(letter, { step: simulation.step, transaction, place: ++simulation.places })
  }
}

export async function resetEvent({ db, model }: Simulation, index: number): Promise<void> {
  const begunIds = model.deliveries.filter((one) => one.begun).map((one) => one.eventId)
  const from = begunIds.length > 0 && index % 4 !== 3 ? begunIds : model.eventIds
  const eventId = from[index % Math.max(from.length, 1)]
  if (eventId === undefined) return
  const begun = model.deliveries.filter(
    (one) => one.eventId === eventId && one.state === 'leased' && one.begun,
  )
  const answers = await reset(db, { eventId, reason: 'test' })
  expectEqual(
    `reset of event ${eventId}`,
    answers.map((one) => one.subscription).sort(),
    begun.map((one) => one.policy.no).sort(),
  )
  for (const delivery of begun) model.reset(delivery)
}

/** As the hub does it: what has arrived is admitted first. */
export async function cancelEvents(simulation: Simulation, indices: readonly number[]): Promise<void> {
  const { db, model } = simulation
  if (model.eventIds.length === 0) return
  await admitAll(simulation, 0)
  const eventIds = [
    ...new Set(indices.map((index) => model.eventIds[index % model.eventIds.length] as number)),
  ]
  const hit = model.deliveries.filter((one) => eventIds.includes(one.eventId) && !isFinished(one))
  const answers = await cancel(db, { eventIds, subscription: null, reason: 'test' })
  expectEqual(
    'cancelled',
    answers.map((one) => `${one.eventId}/${one.subscription} ${one.told ? 'told' : 'cancelled'}`).sort(),
    hit
      .map((one) => `${one.eventId}/${one.policy.no} ${one.state === 'leased' ? 'told' : 'cancelled'}`)
      .sort(),
  )
  for (const delivery of hit) {
    if (delivery.state === 'leased') delivery.told = true
    else model.cancel(delivery)
  }
}

/** Picks any delivery: what does not wait is left alone. */
export async function buryOne(simulation: Simulation, index: number): Promise<void> {
  const { db, model } = simulation
  await admitAll(simulation, 0)
  const delivery = model.deliveries[index % Math.max(model.deliveries.length, 1)]
  if (delivery === undefined) return
  const waits = !isFinished(delivery) && delivery.state !== 'leased'
  const stopsLane = delivery.policy.blocks && model.isHead(delivery) ? delivery.key : null
  const { eventId, policy } = delivery
  const request = { eventId, subscription: policy.no, reason: 'test', lane: 'as usual' as const }
  const answer = await buryWaiting(db, new Admitter(db), request)
  expectEqual(`burial of ${eventId}/${policy.no}`, answer?.stopsLane, waits ? stopsLane : undefined)
  if (waits) model.buryWaiting(delivery)
}

/** Mostly one that waits for another attempt; what was never tried is left alone. */
export async function hastenOne(simulation: Simulation, index: number): Promise<void> {
  const { db, model } = simulation
  await admitAll(simulation, 0)
  const deferred = model.deliveries.filter(({ state }) => state === 'deferred')
  const from = deferred.length > 0 && index % 4 !== 3 ? deferred : model.deliveries
  const delivery = from[index % Math.max(from.length, 1)]
  if (delivery === undefined) return
  const { eventId, policy, key, state, attempts } = delivery
  const isNext = state === 'deferred' || (state === 'waiting' && (key === null || model.isHead(delivery)))
  const answer = await retryWaiting(db, { eventId, subscription: policy.no, by: 'test' })
  expectEqual(`retry of ${eventId}/${policy.no}`, answer, isNext && attempts > 0)
  if (answer) model.hasten(delivery)
}

interface UnblockCommand {
  readonly lane: number
  readonly verb: 'skip' | 'discard' | 'retry'
}

/** Picks a blocked lane if there is one; asking for another one finds nothing. */
export async function unblock(simulation: Simulation, { lane: index, verb }: UnblockCommand): Promise<void> {
  const { db, model } = simulation
  const all = [...model.lanes]
  const blocked = all.filter(([, lane]) => lane.blocked !== null)
  const from = all[index % Math.max(all.length, 1)]?.[1].blocked || blocked.length === 0 ? all : blocked
  const [name, lane] = from[index % Math.max(from.length, 1)] ?? []
  if (name === undefined || lane === undefined) return
  const [subscription, orderingKey] = name.split('/') as [string, string]
  const request = { subscription: Number(subscription), orderingKey }
  const head = lane.blocked?.eventId
  if (verb === 'retry') return retryHead(simulation, lane, await blockingLetter(db, request))
  expectEqual(`head of lane ${name}`, await unblockLane(db, { ...request, verb }), head)
  if (head !== undefined) model.unblock(lane, verb)
}

async function retryHead(simulation: Simulation, lane: Lane, letterId: string | undefined): Promise<void> {
  const row = simulation.snapshot.letters.find((one) => one.id === letterId)
  expectEqual('event of the letter that blocks the lane', row?.eventId, lane.blocked?.eventId)
  const letter = simulation.model.letters.find(
    ({ delivery, redriven }) =>
      delivery.eventId === row?.eventId && delivery.policy.no === row.subscription && !redriven,
  )
  if (letter !== undefined) await redriveThese(simulation, [letter])
}
