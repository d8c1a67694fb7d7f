import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from '../observe/log.ts'

/** One after the other. Whatever one part fails with, the others are let go too. */
export async function stopEach(parts: readonly (() => unknown)[], log: Logger): Promise<void> {
  for (const part of parts) {
    try {
      await part()
    } catch (error) {
      log.error({ err: error }, 'Trouble while stopping')
    }
  }
}

/** Waits for it, and no longer than this: then `late` says so. */
export async function atMost(ms: number, work: Promise<unknown>, late: () => void): Promise<void> {
  const over = new AbortController()
  const waited = delay(ms, undefined, { signal: over.signal }).then(late, () => undefined)
  await Promise.race([work, waited]).finally(() => over.abort())
}
