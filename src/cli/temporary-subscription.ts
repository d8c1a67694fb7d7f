import { hostname } from 'node:os'
import type { Subscriber } from '../client/answers.ts'
import type { PosthornClient } from '../client/client.ts'
import { PosthornHttpError } from '../client/http-error.ts'
import { type RetryPolicy, scheduleRetry } from '../domain/retry.ts'
import type { Out } from './command.ts'

/** A developer watches: a failed delivery comes again soon, or not at all. */
const backoffSeconds = [1, 5, 30]
export const temporaryRetry: RetryPolicy = scheduleRetry(backoffSeconds.map((seconds) => seconds * 1000))

/** The name of a host may contain characters that the name of a subscription may not. */
const prefix = `listen-${hostname()
  .replace(/[^A-Za-z0-9_.-]/g, '-')
  .slice(0, 80)}-`

/** Makes a subscription that is named after this process, and is deleted when the process ends. */
export function createTemporary(client: PosthornClient, types: readonly string[]): Promise<Subscriber> {
  return client.subscribers.create({
    name: `${prefix}${process.pid}`,
    via: 'pull',
    eventTypes: types,
    retryBackoffSeconds: backoffSeconds,
  })
}

/** Deletes the subscriptions of processes on this machine that were killed. */
export async function deleteLeftBehind(client: PosthornClient, out: Out): Promise<void> {
  for (const { id, name, via } of await client.subscribers.list()) {
    if (via !== 'pull' || !name.startsWith(prefix)) continue
    const pid = name.slice(prefix.length)
    if (!/^\d{1,10}$/.test(pid) || isAlive(Number(pid))) continue
    await deleteSubscription(client, id)
    out(`deleted ${name}, which a process that is gone had left behind`)
  }
}

/** If somebody else has deleted the subscription, that is success too. */
export async function deleteSubscription(client: PosthornClient, id: string): Promise<void> {
  try {
    await client.subscribers.delete(id)
  } catch (error) {
    if (!(error instanceof PosthornHttpError) || error.status !== 404) throw error
  }
}

/** This process has made no subscription yet: one with its pid belongs to an earlier process with the same pid. */
function isAlive(pid: number): boolean {
  if (pid === process.pid) return false
  try {
    return process.kill(pid, 0)
  } catch (error) {
    // The process is alive, but belongs to another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
