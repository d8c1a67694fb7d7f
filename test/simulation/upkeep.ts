import { expire } from '../../src/engine/expire.ts'
import { reclaim } from '../../src/engine/reclaim.ts'
import { expectEqual } from './check.ts'
import { type Delivery, isFinished, type Lease } from './model.ts'
import type { Simulation } from './simulation.ts'

/** Takes back what is overdue, except what its worker is settling at this moment. */
export async function reclaimAll({ db, model, leases }: Simulation, locked?: Lease): Promise<void> {
  const ended = leases.filter(
    (one) => one !== locked && one.until < model.now && model.covered(one).length > 0,
  )
  const { runs, charged } = await reclaim(db)
  expectEqual('leases that had ended', runs, ended.length)
  const expected = ended.flatMap((lease) => model.reclaim(lease))
  expectEqual(
    'charged by the reclaim',
    charged.map((one) => `${one.eventId}/${one.subscription} ${one.failures} ${one.buried}`).sort(),
    expected.map((one) => `${nameOf(one)} ${one.failures} ${one.state === 'buried'}`).sort(),
  )
}

/** Ends what has outlived its time, unless it is leased or has not been admitted: also the rest of a leased lane. */
export async function expireAll(simulation: Simulation): Promise<void> {
  const { db, model } = simulation
  const ended = model.deliveries.filter(
    (one) => isOver(one, model.now) && !isFinished(one) && one.state !== 'arrived' && one.state !== 'leased',
  )
  const answers = await expire(db)
  expectEqual(
    'expired',
    answers.map((one) => `${one.eventId}/${one.subscription}`).sort(),
    ended.map(nameOf).sort(),
  )
  for (const delivery of ended) model.expire(delivery)
  for (const { blocked } of model.lanes.values()) {
    if (blocked !== null && isOver(blocked, model.now)) blocked.expiresAt = null
  }
}

function isOver({ expiresAt }: { expiresAt: number | null }, now: number): boolean {
  return expiresAt !== null && expiresAt <= now
}

function nameOf({ eventId, policy }: Delivery): string {
  return `${eventId}/${policy.no}`
}
