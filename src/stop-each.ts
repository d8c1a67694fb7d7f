import type { Logger } from './observe/log.ts'

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
