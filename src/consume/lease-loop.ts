import type { LeasedRun } from '../domain/delivery.ts'
import { isBehind } from './attempts.ts'
import type { LeaseRenewer } from './lease-renewer.ts'
import type { RunnerParts } from './runner-parts.ts'
import type { Want } from './source.ts'

/** Takes leased runs; `askedAt` is when they were asked for, by the monotonic clock. */
type Hold = (runs: readonly LeasedRun[], askedAt: number) => void

/** Payloads that may be fetched at once, over all shares. */
const charsMax = 256 * 2 ** 20
const failureDelayMsMax = 2_000

/** Leases what the shares want, for as long as the runner runs. */
export async function runLeaseLoop(parts: RunnerParts, renewer: LeaseRenewer, hold: Hold): Promise<void> {
  const { wakeup } = parts
  let failures = 0
  while (parts.state === 'running') {
    try {
      const mayBeMore = await leaseOnce(parts, hold)
      failures = 0
      if (!mayBeMore) await wakeup.wait(() => peek(parts))
    } catch (error) {
      renewer.failed(error, 'leasing')
      await wakeup.pause(Math.min(100 * 2 ** failures++, failureDelayMsMax))
    }
  }
}

/** True: the source may have more, so ask again at once. */
async function leaseOnce(parts: RunnerParts, hold: Hold): Promise<boolean> {
  const { source, wakeup } = parts
  const askedAt = performance.now()
  const wants = wantsOf(parts, askedAt)
  if (wants.length === 0) return false
  wakeup.looking()
  const { runs, again, askedAt: askedBefore } = await source.lease(wants)
  hold(runs, askedBefore ?? askedAt)
  if (runs.length === 0) {
    wakeup.foundNothing()
    if (again) await wakeup.pause(5)
    return again
  }
  const isAll = wants.every((want) => isBelow(want, runs))
  wakeup.found(isAll && !again)
  return again || !isAll
}

async function peek(parts: RunnerParts): Promise<boolean> {
  if (wantsOf(parts, performance.now()).length === 0) return false
  return parts.source.peek([...parts.shares.keys()])
}

function wantsOf(parts: RunnerParts, now: number): Want[] {
  if (isBehind(parts)) return []
  const { shares, suspects, wakeup } = parts
  const wanting = { now, suspects: suspects.isNone, charsMax: charsMax / shares.size }
  const all = [...shares.values()]
  const rests = all.map((share) => share.restMs(now)).filter((ms) => ms > 0)
  if (rests.length > 0) wakeup.wakeAfter(Math.min(...rests))
  return all.flatMap((share) => share.want(wanting) ?? [])
}

/** The subscription got less than it asked for, so nothing more is ready. */
function isBelow(want: Want, leased: readonly LeasedRun[]): boolean {
  const runs = leased.filter((run) => run.subscription === want.subscription)
  const events = runs.reduce((sum, run) => sum + run.deliveries.length, 0)
  return events < want.eventsMax && runs.length < want.runsMax
}
