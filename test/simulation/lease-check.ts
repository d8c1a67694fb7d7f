import type { LeasedRun } from '../../src/domain/delivery.ts'
import { expectEqual, expectTrue } from './check.ts'
import type { Delivery } from './model.ts'
import type { Simulation } from './simulation.ts'
import type { RunRow } from './snapshot.ts'
import type { Policy } from './stage.ts'

interface Asked {
  readonly policies: readonly Policy[]
  readonly eventsMax: number
  readonly laneMax: number
  readonly suspects: boolean
  readonly tags: readonly string[] | null
}

/** Which deliveries may be leased, which must be, and in which order. */
export function checkLease(simulation: Simulation, asked: Asked, runs: readonly LeasedRun[]): void {
  for (const run of runs) {
    checkRun(simulation, asked, run)
    checkFirst(simulation, run)
  }
  const suspects = runs.filter((run) => run.suspect)
  expectTrue('one suspect at a time, whatever its subscription', suspects.length <= 1)
  for (const policy of asked.policies) {
    const granted = runs.filter((run) => run.subscription === policy.no)
    const offered = simulation.snapshot.runs.filter((run) => isOffered(simulation, asked, policy, run))
    checkAge(simulation, offered, granted)
    checkAmount(simulation, asked, {
      policy,
      offered,
      granted,
      otherSuspect: suspects.some((run) => run.subscription !== policy.no),
    })
  }
}

/** By the model alone: nothing is leased that is not free, due, alive and at the head of its lane. */
function checkRun({ model }: Simulation, asked: Asked, run: LeasedRun): void {
  const name = `leased run ${run.id} of ${run.deliveries.map(({ event }) => event.id)}/${run.subscription}`
  const deliveries = run.deliveries.map(({ event }) => model.find(event.id, run.subscription) as Delivery)
  for (const [place, one] of deliveries.entries()) {
    expectTrue(`${name}: ${one.eventId} is waiting, not ${one.state}`, one.state === 'waiting')
    expectTrue(`${name}: ${one.eventId} has not expired`, one.expiresAt === null || one.expiresAt > model.now)
    expectEqual(
      `${name}: number of the attempt and failures of ${one.eventId}`,
      [run.deliveries[place]?.attempt, run.deliveries[place]?.failures],
      [one.attempts + 1, one.failures],
    )
    expectTrue(`${name}: ${one.eventId} has a tag that was asked for`, hasAny(one.tags, asked.tags))
    expectTrue(`${name}: suspects were not asked for`, asked.suspects || !one.suspect)
  }
  const [head] = deliveries as [Delivery]
  if (head.key !== null) {
    const { order, blocked } = model.lane(head)
    expectTrue(`${name}: its lane is not blocked`, blocked === null)
    expectEqual(`${name}: the head of its lane`, deliveries, order.slice(0, deliveries.length))
    expectTrue(
      `${name}: none of its lane is out`,
      order.every((one) => one.state !== 'leased'),
    )
    expectTrue(`${name}: no more than ${asked.laneMax} of a lane`, deliveries.length <= asked.laneMax)
  }
  expectTrue(
    `${name}: a suspect goes alone`,
    !deliveries.some((one) => one.suspect) || (run.suspect && deliveries.length === 1),
  )
}

/** A run gives its first deliveries. */
function checkFirst({ snapshot }: Simulation, run: LeasedRun): void {
  const before = snapshot.runs.find((one) => one.id === run.id)
  const ids = run.deliveries.map(({ event }) => event.id)
  expectEqual(`leased run ${run.id}: the first of its run`, ids, before?.eventIds.slice(0, ids.length))
}

/** The same for workers that get one delivery each. */
export function checkEach(simulation: Simulation, asked: Asked, runs: readonly LeasedRun[]): void {
  for (const run of runs) {
    checkRun(simulation, asked, run)
    expectEqual(`leased run ${run.id}: deliveries`, run.deliveries.length, 1)
  }
  const [policy] = asked.policies as [Policy]
  const name = `${runs.length} of ${asked.eventsMax} leased of subscription ${policy.no}`
  expectTrue(`${name}, no more`, runs.length <= asked.eventsMax)
  if (policy.maxConcurrency !== null) {
    expectEqual(`${name}, which has a limit`, runs.length, 0)
    return
  }
  const offered = simulation.snapshot.runs.filter((run) => isOffered(simulation, asked, policy, run))
  const idsOf = (run: RunRow) => (run.key === null ? run.eventIds : run.eventIds.slice(0, 1))
  const calm = offered.filter((run) => !endsSoon(simulation, run)).flatMap(idsOf)
  const urgent = offered.filter((run) => endsSoon(simulation, run)).flatMap(idsOf).length
  const granted = new Set(runs.map(({ deliveries }) => deliveries[0]?.event.id))
  const youngest = Math.max(0, ...calm.filter((id) => granted.has(id)))
  for (const id of calm.filter((one) => !granted.has(one))) {
    expectTrue(`event ${id} was ready and is older than ${youngest}, so it is leased first`, id > youngest)
  }
  expectTrue(
    `${name}, though ${calm.length} were ready besides ${urgent} urgent ones`,
    runs.length >= Math.min(asked.eventsMax, calm.length + urgent),
  )
}

function isOffered({ model }: Simulation, asked: Asked, policy: Policy, run: RunRow): boolean {
  const head = model.find(run.eventIds[0] ?? 0, run.subscription)
  return (
    run.subscription === policy.no &&
    run.state === 'ready' &&
    (asked.suspects || !run.suspect) &&
    (head?.expiresAt == null || head.expiresAt > model.now) &&
    hasAny(run.tags, asked.tags)
  )
}

/** The oldest first; those that expire within a minute may go before their turn, or wait for the next half. */
function checkAge(simulation: Simulation, offered: readonly RunRow[], granted: readonly LeasedRun[]): void {
  const ids = granted.map((run) => run.id)
  const isUrgent = (run: RunRow) => endsSoon(simulation, run)
  const calm = offered.filter((run) => !isUrgent(run))
  const youngest = Math.max(
    0,
    ...calm.filter((run) => ids.includes(run.id)).map((run) => run.eventIds[0] ?? 0),
  )
  for (const run of calm) {
    if (ids.includes(run.id)) continue
    const [head] = run.eventIds as [number]
    expectTrue(
      `event ${head} was ready and is older than ${youngest}, so it is leased first`,
      head > youngest,
    )
  }
}

interface Amount {
  readonly policy: Policy
  readonly offered: readonly RunRow[]
  readonly granted: readonly LeasedRun[]
  readonly otherSuspect: boolean
}

function checkAmount(
  simulation: Simulation,
  asked: Asked,
  { policy, offered, granted, otherSuspect }: Amount,
): void {
  const { model } = simulation
  const out = model.deliveries.filter((one) => one.policy.no === policy.no && one.state === 'leased').length
  const room = Math.min(asked.eventsMax, (policy.maxConcurrency ?? Number.POSITIVE_INFINITY) - out)
  const total = granted.reduce((sum, run) => sum + run.deliveries.length, 0)
  const name = `leased of subscription ${policy.no}: ${total} of ${room}`
  expectTrue(`${name}, no more`, total <= Math.max(room, 0))

  const sizeOf = (run: RunRow) =>
    run.key === null ? run.eventIds.length : Math.min(run.eventIds.length, asked.laneMax)
  const sum = (runs: readonly RunRow[]) => runs.reduce((size, run) => size + sizeOf(run), 0)
  if (offered.some((run) => run.suspect)) {
    expectTrue(`${name}, though something was ready`, total > 0 || room <= 0 || otherSuspect)
    if (granted.some((run) => run.suspect)) expectEqual(`${name}, beside a suspect`, total, 1)
    return
  }
  const urgent = sum(offered.filter((run) => endsSoon(simulation, run)))
  const calm = sum(offered) - urgent
  const half = Math.floor(room / 2)
  expectTrue(
    `${name}, though ${calm} were ready besides ${urgent} urgent ones`,
    total >= Math.min(room, calm + Math.min(half, urgent)),
  )
}

function endsSoon({ model }: Simulation, run: RunRow): boolean {
  const head = model.find(run.eventIds[0] ?? 0, run.subscription)
  return head?.expiresAt != null && head.expiresAt <= model.now + 60_000
}

function hasAny(tags: readonly string[] | null, asked: readonly string[] | null): boolean {
  return asked === null || (tags ?? []).some((tag) => asked.includes(tag))
}
