import { isDeepStrictEqual } from 'node:util'
import { type Delivery, isFinished, type Model } from './model.ts'
import { laneOrder, type RunRow, runsOut, type Snapshot } from './snapshot.ts'
import type { Policy } from './stage.ts'

export function expectTrue(what: string, holds: boolean): void {
  if (!holds) throw new Error(`Broken: ${what}`)
}

export function expectEqual(what: string, found: unknown, expected: unknown): void {
  if (isDeepStrictEqual(found, expected)) return
  throw new Error(`Broken: ${what}: expected ${JSON.stringify(expected)}, found ${JSON.stringify(found)}`)
}

/** What must hold after every command. */
export function checkStanding(model: Model, snapshot: Snapshot): void {
  checkDeliveries(model, snapshot)
  checkPlaces(model, snapshot)
  for (const run of snapshot.runs) checkRun(model, run)
  checkLanes(model, snapshot)
  checkTags(snapshot)
  checkLimits(model, snapshot)
  checkLetters(model, snapshot)
  expectEqual('what queues have done', snapshot.totals, snapshot.recorded)
}

/** What must hold right after an admission: nothing that could move has stayed. */
export function checkAdmitted(model: Model, snapshot: Snapshot, policies: readonly Policy[]): void {
  expectEqual('arrivals left behind', snapshot.inbox, [])
  expectEqual('notes left behind', snapshot.notes, 0)
  for (const one of model.deliveries) {
    const late = one.dueAt !== null && one.dueAt <= model.now
    expectTrue(`delivery ${nameOf(one)} is due and moves on`, !late)
  }
  for (const { subscription, key } of snapshot.queue) {
    const out = runsOut(snapshot, subscription, key).length
    expectEqual(`runs out of lane ${subscription}/${key}, in which others queue`, out, 1)
  }
  for (const { subscription, gate, state } of snapshot.runs) {
    if (state !== 'gated') continue
    const limit = policies.find((policy) => policy.no === subscription)?.keyConcurrency
    expectEqual(
      `slots taken of ${subscription}/${gate}, for which others wait`,
      slotsTaken(snapshot, subscription, gate),
      limit,
    )
  }
}

/** What the readers of events are told. */
function checkDeliveries(model: Model, snapshot: Snapshot): void {
  const found = new Map(snapshot.deliveries.map((row) => [`${row.eventId}/${row.subscription}`, row]))
  for (const one of model.deliveries) {
    const row = found.get(nameOf(one))
    if (row !== undefined && row.failures === one.failuresOr) one.failures = row.failures
    one.failuresOr = null
    expectEqual(`delivery ${nameOf(one)}`, row && { ...row }, {
      eventId: one.eventId,
      subscription: one.policy.no,
      state: shownState(one),
      attempts: one.attempts + (one.begun ? 1 : 0),
      failures: one.failures,
      audits: one.audits,
    })
  }
  expectEqual('number of deliveries', found.size, model.deliveries.length)
}

export function shownState(
  one: Delivery,
): 'leased' | 'waiting' | 'completed' | 'buried' | 'expired' | 'cancelled' {
  if (one.state === 'leased') return one.begun ? 'leased' : 'waiting'
  if (one.state === 'completed' || one.state === 'buried') return one.state
  if (one.state === 'expired' || one.state === 'cancelled') return one.state
  return 'waiting'
}

/** Every unfinished delivery stands in one place, and no other delivery anywhere. */
function checkPlaces(model: Model, { runs, queue, inbox }: Snapshot): void {
  const places = new Map<string, string[]>()
  const note = (subscription: number, eventIds: readonly number[], place: string) => {
    for (const id of eventIds) {
      const name = `${id}/${subscription}`
      places.set(name, [...(places.get(name) ?? []), place])
    }
  }
  for (const run of runs) note(run.subscription, run.eventIds, 'run')
  for (const chunk of queue) note(chunk.subscription, chunk.eventIds, 'queue')
  for (const arrival of inbox) note(arrival.subscription, arrival.eventIds, 'inbox')
  for (const one of model.deliveries) {
    const found = places.get(nameOf(one)) ?? []
    places.delete(nameOf(one))
    if (isFinished(one)) expectEqual(`places of ${nameOf(one)}, which is ${one.state}`, found, [])
    else expectEqual(`number of places of ${nameOf(one)}, which is ${one.state}`, found.length, 1)
    if (one.state === 'arrived') expectEqual(`place of ${nameOf(one)}, which has arrived`, found, ['inbox'])
    else expectTrue(`${nameOf(one)} has left the inbox`, found[0] !== 'inbox')
  }
  expectEqual('deliveries that nobody is owed', [...places.keys()], [])
}

/** A run's state is that of its deliveries. */
function checkRun(model: Model, run: RunRow): void {
  const name = `run ${run.id} (${run.state}) of ${run.eventIds.map((id) => `${id}/${run.subscription}`)}`
  const deliveries = run.eventIds.map((id) => model.find(id, run.subscription) as Delivery)
  const [head] = deliveries
  expectEqual(
    `states in ${name}`,
    deliveries.map((one) => one.state),
    statesIn(run),
  )
  for (const one of deliveries) {
    expectEqual(
      `keys, gates and tags in ${name}`,
      [one.key, one.gate, one.tags],
      [run.key, run.gate, run.tags],
    )
    expectEqual(`expiry in ${name}`, one.expiresAt !== null, run.expires)
  }
  if (run.gate !== null)
    expectTrue(`${name} holds one slot, so one delivery`, run.eventIds.length <= 1 || run.state === 'delayed')
  if (head === undefined || run.state === 'blocked') return
  expectEqual(
    `attempts and failures of the head of ${name}`,
    [run.attempts, run.failures],
    [head.attempts, head.failures],
  )
  if (run.state !== 'leased') expectEqual(`age of ${name}`, run.firstId, head.eventId)
  if (head.suspect || run.key === null) expectEqual(`suspicion of ${name}`, run.suspect, head.suspect)
  if (run.state !== 'leased') return
  const leased = deliveries.slice(0, run.granted ?? 0)
  expectEqual(
    `tokens in ${name}`,
    leased.map((one) => one.fence?.token),
    leased.map(() => run.token),
  )
  expectEqual(
    `fences in ${name}`,
    leased.map((one) => one.fence?.runId),
    leased.map(() => run.id),
  )
}

function statesIn({ state, eventIds, key, granted }: RunRow): Delivery['state'][] {
  return eventIds.map((_, place) => {
    if (state === 'delayed') return 'delayed'
    if (state === 'deferred' && (place === 0 || key === null)) return 'deferred'
    if (state === 'leased' && place < (granted ?? 0)) return 'leased'
    return 'waiting'
  })
}

function checkLanes(model: Model, snapshot: Snapshot): void {
  for (const [name, lane] of model.lanes) {
    const [subscription, key] = name.split('/') as [string, string]
    const runs = runsOut(snapshot, Number(subscription), key)
    expectTrue(`lane ${name} has one run out at most, found ${JSON.stringify(runs)}`, runs.length <= 1)
    const order = lane.order.map((one) => one.eventId)
    expectEqual(`order of lane ${name}`, laneOrder(snapshot, Number(subscription), key), order)
    const blockedBy = runs[0]?.state === 'blocked' ? runs[0].blockedBy : null
    expectEqual(`head that blocks lane ${name}`, blockedBy, lane.blocked?.eventId ?? null)
  }
}

function checkTags({ runs, readyTags }: Snapshot): void {
  const ready = runs.filter((run) => run.state === 'ready')
  const expected = ready.flatMap((run) =>
    (run.tags ?? []).map((tag) => `${run.subscription}/${tag}/${run.firstId}/${run.id}`),
  )
  expectEqual('tags of ready runs', [...readyTags].sort(), expected.sort())
}

function checkLimits(model: Model, snapshot: Snapshot): void {
  for (const { policy, gate } of model.deliveries) {
    if (gate === null || policy.keyConcurrency === null) continue
    const taken = slotsTaken(snapshot, policy.no, gate)
    expectTrue(
      `slots of ${policy.no}/${gate}: ${taken} taken of ${policy.keyConcurrency}`,
      taken <= policy.keyConcurrency,
    )
  }
  for (const { maxConcurrency, no } of new Set(model.deliveries.map((one) => one.policy))) {
    const leased = model.deliveries.filter((one) => one.policy.no === no && one.state === 'leased').length
    expectTrue(`${leased} leased of subscription ${no}`, leased <= (maxConcurrency ?? leased))
  }
}

function slotsTaken({ runs }: Snapshot, subscription: number, gate: string | null): number {
  const holding = runs.filter((run) => run.state === 'ready' || run.state === 'leased')
  return holding.filter((run) => run.subscription === subscription && run.gate === gate).length
}

function checkLetters(model: Model, snapshot: Snapshot): void {
  const show = (one: {
    eventId: number
    subscription: number
    kind: string
    attempts: number
    failures: number
    redriven: boolean
  }) =>
    `${one.eventId}/${one.subscription} ${one.kind}, ${one.attempts} attempts, ${one.failures} failures${one.redriven ? ', redriven' : ''}`
  const expected = model.letters.map(({ delivery, ...letter }) =>
    show({ ...letter, eventId: delivery.eventId, subscription: delivery.policy.no }),
  )
  expectEqual('dead letters', snapshot.letters.map(show).sort(), expected.sort())
}

function nameOf({ eventId, policy }: Delivery): string {
  return `${eventId}/${policy.no}`
}
