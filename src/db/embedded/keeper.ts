import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import type pg from 'pg'
import { PosthornError } from '../../errors.ts'
import { codeOf } from './files.ts'

/** A connection whose end means that the server, or the sign of our presence there, is lost. */
interface Link {
  readonly client: pg.Client
  readonly ended: Promise<void>
}

interface KeeperOptions {
  /** Joins the server again, or starts it if it is dead. */
  readonly restore: () => Promise<Link>
  readonly log: (line: string) => void
}

export interface Keeper {
  /** Stops watching. The connection stays open until `release`, so that no other process thinks we have left. */
  stop(): Promise<void>
  release(): Promise<void>
}

const retryMsMin = 100
const retryMsMax = 5000

/** Watches the server while we use it, and restores it. Does not keep the process alive. */
export function keep(first: Link, { restore, log }: KeeperOptions): Keeper {
  const stopping = new AbortController()
  const { signal } = stopping
  const stopped = once(signal, 'abort')
  let link: Link | undefined = first
  const watching = watch()

  async function watch(): Promise<void> {
    while (link) {
      reference(link.client).unref()
      await Promise.race([link.ended, stopped])
      if (signal.aborted) return
      log('the connection to the embedded server was lost')
      link = await restoreWithRetries()
    }
  }

  async function restoreWithRetries(): Promise<Link | undefined> {
    for (let retryMs = retryMsMin; !signal.aborted; retryMs = Math.min(retryMs * 2, retryMsMax)) {
      try {
        return await restore()
      } catch (error) {
        log(`the embedded server could not be restored: ${(error as Error).message}`)
        if (isFinal(error)) return undefined
      }
      // Rejects only when stop() cuts it short; the loop sees that.
      await delay(retryMs, undefined, { ref: false, signal }).catch(() => undefined)
    }
    return undefined
  }

  return {
    async stop() {
      stopping.abort()
      await watching
    },
    async release() {
      if (!link) return
      reference(link.client).ref()
      await link.client.end()
    },
  }
}

/** The folder is gone or was replaced: no retry brings it back. */
function isFinal(error: unknown): boolean {
  if (error instanceof PosthornError) return error.code === 'DATA_DIRECTORY_UNUSABLE'
  return codeOf(error) === 'ENOENT'
}

/** Part of the driver, but missing in its types. */
function reference(client: pg.Client): { ref(): void; unref(): void } {
  return client as unknown as { ref(): void; unref(): void }
}
