import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import type pg from 'pg'
import { PosthornError } from '../../errors.ts'

/** A connection whose end means that the server, or our place at it, is lost. */
export interface Link {
  readonly client: pg.Client
  readonly ended: Promise<void>
}

export interface KeeperOptions {
  /** Joins the server again, or starts it if it is dead. */
  readonly restore: () => Promise<Link>
  readonly log: (line: string) => void
}

export interface Keeper {
  /** Stops watching. The connection stays open until `release`, so that nobody thinks we have left. */
  stop(): Promise<void>
  release(): Promise<void>
}

const retryMsMin = 100
const retryMsMax = 5000

/** Watches over the server for as long as we use it. Keeps nothing alive: a process may just end. */
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
      // Rejects only when it is cut short by stop(), which is then seen by the loop.
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
  return (error as NodeJS.ErrnoException).code === 'ENOENT'
}

/** Part of the driver, but missing in its types. */
function reference(client: pg.Client): { ref(): void; unref(): void } {
  return client as unknown as { ref(): void; unref(): void }
}
