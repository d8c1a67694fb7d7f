import type { SettleDelivery } from '../consume/source.ts'
import type { RemoteDelivery, RemoteRun } from './remote-run.ts'

/** Outcomes for one call. */
export interface Portion {
  /** The outcomes as JSON, without the brackets around them. */
  readonly body: string
  /** The place of each in the list that was given. */
  readonly positions: readonly number[]
}

/** Errors may be long, and a call must stay well below the longest body that the server reads. */
const charsMax = 500_000

/** Cuts settlements into calls. A run that is settled by one call costs the server least, so runs stay together. */
export function portionsOf(settlements: readonly SettleDelivery[], settlementsMax: number): Portion[] {
  const portions: Portion[] = []
  let texts: string[] = []
  let positions: number[] = []
  let chars = 0
  for (const position of byRun(settlements, settlementsMax)) {
    const text = outcomeText(settlements[position] as SettleDelivery)
    if (positions.length === settlementsMax || (chars + text.length > charsMax && chars > 0)) {
      portions.push({ body: texts.join(','), positions })
      texts = []
      positions = []
      chars = 0
    }
    texts.push(text)
    positions.push(position)
    chars += text.length
  }
  portions.push({ body: texts.join(','), positions })
  return portions
}

function byRun(settlements: readonly SettleDelivery[], settlementsMax: number): Iterable<number> {
  if (settlements.length <= settlementsMax) return settlements.keys()
  const runs = new Map<unknown, number[]>()
  for (const [position, { delivery }] of settlements.entries()) {
    const known = runs.get(delivery.run)
    if (known === undefined) runs.set(delivery.run, [position])
    else known.push(position)
  }
  return [...runs.values()].flat()
}

/** JSON written by hand, because it is done for every event. */
function outcomeText({ delivery, settlement, startedAfterMs, executionMs }: SettleDelivery): string {
  const { tokenText, waitedMs } = delivery.run as RemoteRun
  ;(delivery as RemoteDelivery).state = 'settling'
  const lease = `{"event_id":${delivery.event.id},"lease_token":${tokenText}`
  const startedMs = Math.max(0, Math.round(startedAfterMs - waitedMs))
  const timing = `"execution_time_ms":${executionMs},"started_after_ms":${startedMs}`
  switch (settlement.kind) {
    case 'complete':
      return `${lease},"outcome":"complete",${timing}}`
    case 'retry':
      return `${lease},"outcome":"fail","error_message":${JSON.stringify(settlement.reason)},${timing}}`
    case 'bury':
      return `${lease},"outcome":"bury","reason":${JSON.stringify(settlement.reason)},${timing}}`
    case 'snooze':
      return `${lease},"outcome":"snooze","after_ms":${settlement.afterMs},${timing}}`
    case 'release':
    case 'cancel':
      return `${lease},"outcome":"release"}`
  }
}
