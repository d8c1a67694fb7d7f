/** How an attempt ends: what the payload says of this attempt, else by chance, the same in every process. */
import { randomFor } from '../../crash/support/random.js'

const shares = { throw: 0.07, snooze: 0.03, bury: 0.03, timeout: 0.02, crash: 0.002, block: 0.001 }

/**
 * @param {{ u: number, o?: string[], ms?: number }} payload
 * @returns {{ outcome: 'ok' | 'throw' | 'snooze' | 'bury' | 'timeout' | 'crash' | 'block', ms: number }}
 */
export function outcomeOf({ payload, attempt, subscription, config, calm }) {
  const random = randomFor(config.seed, subscription, payload.u, attempt)
  const ms = (attempt === 1 ? payload.ms : undefined) ?? random.next() * 6
  if (calm) return { outcome: 'ok', ms: Math.min(ms, 5) }
  const said = payload.o?.[attempt - 1]
  if (said !== undefined) return { outcome: said, ms }
  if (payload.o !== undefined) return { outcome: 'ok', ms }
  let dice = random.next()
  for (const [outcome, share] of Object.entries(shares)) {
    if (dice < share) return { outcome: config.spares.includes(outcome) ? 'ok' : outcome, ms }
    dice -= share
  }
  return { outcome: 'ok', ms }
}
