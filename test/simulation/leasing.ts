import type { LeasedRun } from '../../src/domain/delivery.ts'
import { heartbeat } from '../../src/engine/heartbeat.ts'
import { isolate } from '../../src/engine/isolate.ts'
import { lease } from '../../src/engine/lease.ts'
import { leaseEach } from '../../src/engine/lease-each.ts'
import { release } from '../../src/engine/release.ts'
import { settleValues } from '../../src/engine/settle.ts'
import { settleStatement } from '../../src/engine/settle-statements.ts'
import { expectEqual, expectTrue } from './check.ts'
import type { CompleteInCommand, LeaseCommand } from './commands.ts'
import { checkEach, checkLease } from './lease-check.ts'
import type { Delivery, Lease } from './model.ts'
import { heldClaims, requestFor } from './settling.ts'
import type { Simulation } from './simulation.ts'
import type { Policy } from './stage.ts'
import { reclaimAll } from './upkeep.ts'

let tokens = 0

export async function leaseRuns(simulation: Simulation, command: LeaseCommand): Promise<void> {
  const { db, model, stage, workers } = simulation
  const policies = command.subscriptions.map((no) => stage.policies[no % stage.policies.length] as Policy)
  // Tags are for pull workers, and only they get one delivery of a lane at a time.
  const isPulled = policies.every((policy) => policy.via === 'pull')
  if (isPulled && command.each) return leaseOneEach(simulation, command, policies[0] as Policy)
  const tags = isPulled ? command.tags : null
  const { eventsMax, suspects, begins, minutes } = command
  const laneMax = begins === 'granted' ? 1 : command.laneMax
  const token = nextToken()
  const runs = await lease(db, {
    wants: policies.map(({ no, maxConcurrency }) => ({
      subscription: no,
      eventsMax,
      runsMax: eventsMax,
      suspects,
      leaseMs: simulation.after(minutes),
      laneMax,
      limited: maxConcurrency !== null,
    })),
    token,
    worker: workers[command.worker] as number,
    begins,
    tags,
  })
  checkLease(simulation, { policies, eventsMax, laneMax, suspects, tags }, runs)
  for (const run of runs) {
    const until = model.now + simulation.after(minutes)
    take(simulation, run, { until, worker: command.worker, begun: begins === 'granted' })
  }
}

/** As many workers as the command asks for deliveries: each gets one. */
async function leaseOneEach(simulation: Simulation, command: LeaseCommand, policy: Policy): Promise<void> {
  const { db, model, workers } = simulation
  const { eventsMax, suspects, begins, tags, minutes } = command
  const places = Array.from({ length: eventsMax }, (_, place) => (command.worker + place) % workers.length)
  const takers = places.map((place) => ({ token: nextToken(), worker: workers[place] as number }))
  const leaseMs = simulation.after(minutes)
  const terms = { subscription: policy.no, tags, leaseMs, begins, suspects }
  const { leases } = await leaseEach(db, terms, { takers, runsMax: eventsMax })
  const leased = leases.map((lease) => lease?.run)
  const runs = leased.filter((run) => run !== undefined)
  checkEach(simulation, { policies: [policy], eventsMax, laneMax: 1, suspects, tags }, runs)
  for (const [place, run] of leased.entries()) {
    const worker = places[place] as number
    if (run !== undefined)
      take(simulation, run, { until: model.now + leaseMs, worker, begun: begins === 'granted' })
  }
}

export function nextToken(): number {
  return ++tokens
}

interface Taking {
  readonly until: number
  readonly worker: number
  readonly begun: boolean
}

export function take(simulation: Simulation, run: LeasedRun, { until, worker, begun }: Taking): void {
  const { id: runId, token, subscription, laneKey } = run
  const held: Lease = {
    token,
    runId,
    subscription,
    lane: laneKey !== null,
    size: run.deliveries.length,
    until,
  }
  simulation.leases.push(held)
  for (const { event, attempt, failures } of run.deliveries) {
    const delivery = simulation.model.find(event.id, run.subscription) as Delivery
    simulation.model.lease(delivery, held, begun)
    simulation.claims.push({ worker, lease: held, delivery, attempt, failures })
  }
}

export async function heartbeatLease(
  simulation: Simulation,
  { lease: index, minutes, begun: count }: { lease: number; minutes: number; begun: number },
): Promise<void> {
  const { db, model, leases } = simulation
  const held = pickLease(simulation, index)
  if (held === undefined) return
  const covered = model.covered(held)
  // In a lane one is attempted after the other.
  const begun = covered.slice(0, held.lane ? Math.min(count, 1) : count)
  const leaseMs = simulation.after(minutes)
  const answers = await heartbeat(db, [
    { runId: held.runId, token: held.token, leaseMs, begun: begun.map((one) => one.eventId) },
  ])
  expectEqual(
    'leases still held',
    answers.map((answer) => answer.runId),
    covered.length > 0 ? [held.runId] : [],
  )
  for (const one of covered.filter((delivery) => delivery.told)) {
    expectTrue(
      `the worker of event ${one.eventId} is told`,
      answers[0]?.cancelled.includes(one.eventId) === true,
    )
  }
  // A heartbeat never shortens a lease.
  held.until = Math.max(held.until, model.now + leaseMs)
  for (const one of covered) one.begun = begun.includes(one)
  simulation.leases = leases.filter((one) => model.covered(one).length > 0 || one === held)
}

export async function releaseRun(simulation: Simulation, index: number): Promise<void> {
  const held = pickLease(simulation, index)
  if (held === undefined) return
  await release(simulation.db, [{ runId: held.runId, token: held.token }])
  simulation.model.release(held)
}

/** A delivery is settled in a transaction of its worker: until it ends, nobody else can touch it. */
export async function completeIn(simulation: Simulation, command: CompleteInCommand): Promise<void> {
  const { db, model } = simulation
  const held = heldClaims(simulation).filter((claim) => claim.delivery.state === 'leased')
  const claim = held[command.claim % Math.max(held.length, 1)]
  if (claim === undefined) return
  const { delivery, lease: before } = claim
  const isolated = await isolate(db, { runId: before.runId, token: before.token, eventId: delivery.eventId })
  expectTrue(`event ${delivery.eventId} is held, so it can be taken out of its run`, isolated !== undefined)
  const runId = isolated?.runId
  const alone =
    runId === before.runId
      ? before
      : moveOut(simulation, delivery, { ...before, runId: runId as number, size: 1 })

  const request = {
    ...requestFor(simulation, { ...claim, lease: alone }, { outcome: 'complete', minutes: 1 }),
    runId: alone.runId,
  }
  const transaction = await simulation.stage.begin()
  try {
    const { rows } = await transaction.query(settleStatement(db).text, settleValues([request]))
    expectEqual('rejected in the transaction', rows.length, 0)
    if (command.meanwhile === 'reclaim') await reclaimAll(simulation, alone)
    if (command.meanwhile === 'heartbeat') {
      const beat = { runId: alone.runId, token: alone.token, leaseMs: simulation.after(4), begun: [] }
      const answers = await heartbeat(db, [beat])
      expectEqual(
        'held while it is settled',
        answers.map((one) => one.runId),
        [alone.runId],
      )
    }
  } finally {
    await transaction.end(command.how)
  }
  if (command.how === 'commit') model.complete(delivery, request.failures)
}

function moveOut(simulation: Simulation, delivery: Delivery, alone: Lease): Lease {
  Object.assign(delivery, { fence: alone, begun: true })
  simulation.leases.push(alone)
  simulation.claims = simulation.claims.map((claim) =>
    claim.delivery === delivery && claim.lease.token === alone.token ? { ...claim, lease: alone } : claim,
  )
  return alone
}

/** Mostly one that is in force; the last few others stay to be asked about. */
function pickLease({ leases, model }: Simulation, index: number): Lease | undefined {
  const inForce = leases.filter((one) => model.covered(one).length > 0)
  const from = inForce.length > 0 && index % 4 !== 0 ? inForce : leases
  return from[index % Math.max(from.length, 1)]
}
