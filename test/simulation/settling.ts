import type { SettleRequest } from '../../src/engine/settle.ts'
import { expectEqual } from './check.ts'
import type { SettleItem } from './commands.ts'
import type { Model } from './model.ts'
import { type Planned, settleEach, settlePulled, settleSorted } from './settle-calls.ts'
import type { Claim, Simulation } from './simulation.ts'

/** Settles several claims at once, as the hub does. */
export async function settleItems(simulation: Simulation, items: readonly SettleItem[]): Promise<void> {
  const { db, model } = simulation
  const planned = plan(simulation, items)
  const held = planned.filter(
    ({ claim, request, repeat }) => !repeat && isHeld(claim, model) && claim.lease.token === request.token,
  )
  const settleAll = { none: settleEach, hub: settleSorted, pull: settlePulled }[items[0]?.shortCuts ?? 'none']
  const answers = await settleAll(db, planned)
  for (const { claim, request } of held) apply(simulation, claim, request)
  for (const one of planned) {
    const { claim, request } = one
    const expected = held.includes(one) ? 'settled' : answerWithoutLease(claim, request)
    const what = `answer to event ${request.eventId} of ${claim.lease.subscription} ${request.settlement}`
    expectEqual(what, answers.get(one), expected)
  }
}

/** One settlement per delivery and lane: of a lane only the head can be settled, so the next must wait. */
function plan(simulation: Simulation, items: readonly SettleItem[]): Planned[] {
  const planned: Planned[] = []
  for (const item of items) {
    const isFree = ({ delivery, lease }: Claim) =>
      planned.every(({ claim }) => claim.delivery !== delivery && (!lease.lane || claim.lease !== lease))
    const held = heldClaims(simulation).filter(isFree)
    const late = item.from === 'late' ? held.filter(({ delivery }) => delivery.state !== 'leased') : []
    const any = item.from === 'any' || held.length === 0 ? simulation.claims.filter(isFree) : held
    const from = late.length > 0 ? late : any
    const claim = from[item.claim % Math.max(from.length, 1)]
    if (claim === undefined) continue
    const request = requestFor(simulation, claim, item)
    const sent = item.from === 'forged' ? { ...request, token: request.token + 2 ** 40 } : request
    planned.push({ claim, request: sent, repeat: false })
    if (item.twice) planned.push({ claim, request: sent, repeat: true })
  }
  return planned
}

/** What workers may settle now. */
export function heldClaims({ claims, model }: Simulation): Claim[] {
  return claims.filter((claim) => isHeld(claim, model))
}

/** The lease in force, or one that ended without anybody else having leased since. */
function isHeld({ delivery, lease }: Claim, model: Model): boolean {
  if (delivery.fence?.token !== lease.token) return false
  return delivery.key === null || model.lane(delivery).order[0] === delivery
}

const settlements = {
  complete: 'completed',
  fail: 'retried',
  snooze: 'snoozed',
  bury: 'buried',
  release: 'released',
} as const

export function requestFor(
  simulation: Simulation,
  { delivery, lease, failures }: Claim,
  { outcome, minutes }: Pick<SettleItem, 'outcome' | 'minutes'>,
): SettleRequest {
  const counted = outcome === 'fail' ? failures + 1 : failures
  const final = outcome === 'fail' && counted >= delivery.failuresMax
  const settlement = final ? 'buried' : settlements[outcome]
  const waits = settlement === 'retried' || settlement === 'snoozed'
  return {
    runId: lease.runId,
    token: lease.token,
    eventId: delivery.eventId,
    settlement,
    afterMs: waits ? simulation.after(minutes) : null,
    failures: counted,
    reason: settlement === 'completed' ? null : settlement,
    startedAfterMs: 0,
    executionMs: 1,
    statusCode: null,
  }
}

function answerWithoutLease(claim: Claim, { token, settlement }: SettleRequest): string {
  const earlier = claim.delivery.settledBy.get(token)
  if (earlier === undefined) return 'lost'
  return earlier === settlement ? 'settled' : 'settled otherwise'
}

function apply(
  { model }: Simulation,
  { delivery }: Claim,
  { settlement, failures, afterMs }: SettleRequest,
): void {
  if (settlement === 'completed') model.complete(delivery, failures)
  else if (settlement === 'buried') model.bury(delivery, failures)
  else if (settlement === 'released') model.handBack(delivery, failures)
  else model.defer(delivery, { dueAt: model.now + (afterMs ?? 0), failures, settlement })
}
