import { eventStatus } from '../../src/domain/status.ts'
import { getEvent } from '../../src/events/get-event.ts'
import { expectEqual, shownState } from './check.ts'
import type { Simulation } from './simulation.ts'

/** Every event as its reader sees it. */
export async function checkEvents({ db, model }: Simulation): Promise<void> {
  for (const id of model.eventIds) {
    const details = await getEvent(db, { id, logs: 'with' })
    const deliveries = model.deliveries.filter((one) => one.eventId === id)
    const work = deliveries.filter((one) => one.policy.no === 0)
    const counted = work.length > 0 ? work : deliveries
    const progress = details?.progress
    expectEqual(
      `event ${id}`,
      { status: progress?.status, attempts: progress?.attempts, retryCount: progress?.retryCount },
      {
        status: eventStatus({ states: deliveries.map(shownState), unwanted: false }),
        attempts: Math.max(0, ...counted.map((one) => one.attempts + (one.begun ? 1 : 0))),
        retryCount: Math.max(0, ...counted.map((one) => one.failures)),
      },
    )
    const ended = details?.logs.filter(({ action }) => action !== 'PICKED' && action !== 'STARTED')
    expectEqual(
      `log of event ${id}`,
      ended?.length,
      deliveries.reduce((sum, one) => sum + one.audits, 0),
    )
  }
}
