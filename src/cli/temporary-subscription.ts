import { hostname } from 'node:os'
import type { Subscriber } from '../client/answers.ts'
import type { PosthornClient } from '../client/client.ts'
import { PosthornHttpError } from '../client/http-error.ts'
import { type RetryPolicy, scheduleRetry } from '../domain/retry.ts'
import type { Out } from './command.ts'

/** Somebody sits before the screen: what failed comes again soon, or not at all. */
const backoffSeconds = [1, 5, 30]
export const temporaryRetry: RetryPolicy = scheduleRetry(backoffSeconds.map((seconds) => seconds * 1000))

/** A host's name may have what the name of a subscription may not. */
const prefix = `listen-${hostname()
  .replace(/[^A-Za-z0-9_.-]/g, '-')
  .slice(0, 80)}-`

/** A subscription for as long as this process lives, and named after it. */
export function createTemporary(client: PosthornClient, types: readonly string[]): Promise<Subscriber> {
  return client.subscribers.create({
    name: `${prefix}${process.pid}`,
    via: 'pull',
    eventTypes: types,
    retryBackoffSeconds: backoffSeconds,
  })
}

/** Deletes those of processes of this machine that ended without doing so. */
export async function deleteLeftBehind(client: PosthornClient, out: Out): Promise<void> {
  for (const { id, name, via } of await client.subscribers.list()) {
    if (via !== 'pull' || !name.startsWith(prefix)) continue
    const pid = name.slice(prefix.length)
    if (!/^\d{1,10}$/.test(pid) || isAlive(Number(pid))) continue
    await deleteSubscription(client, id)
    out(`${name} was left behind by a process that is gone, and is deleted`)
  }
}

/** One that somebody else has deleted is deleted. */
export async function deleteSubscription(client: PosthornClient, id: string): Promise<void> {
  try {
    await client.subscribers.delete(id)
  } catch (error) {
    if (!(error instanceof PosthornHttpError) || error.status !== 404) throw error
  }
}

/** This process has made none yet: one of its name is of a process that had its number before. */
function isAlive(pid: number): boolean {
  if (pid === process.pid) return false
  try {
    return process.kill(pid, 0)
  } catch (error) {
    // Somebody else's process is alive too.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
