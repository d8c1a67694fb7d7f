import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from '../observe/log.ts'

/** Stops one part after the other, also if one of them fails. */
export async function stopEach(parts: readonly (() => unknown)[], log: Logger): Promise<void> {
  for (const part of parts) {
    try {
      await part()
    } catch (error) {
      log.error({ err: error }, 'A part of the hub failed to stop')
    }
  }
}

/** Waits for `work`, but no longer than `ms`: then calls `late`. */
export async function atMost(ms: number, work: Promise<unknown>, late: () => void): Promise<void> {
  const over = new AbortController()
  const waited = delay(ms, undefined, { signal: over.signal }).then(late, () => undefined)
  await Promise.race([work, waited]).finally(() => over.abort())
}
