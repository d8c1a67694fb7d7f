/**
 * A process beside tests that use an embedded server: it waits until the process that started it has ended, and shuts
 * the server down if nobody uses it any more.
 */
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { stopDeserted } from '../db/embedded.ts'

/** The server takes a moment to notice that the connections of a process are gone. */
const triesMax = 50
const tryEveryMs = 100

process.stdin.resume()
await once(process.stdin, 'close')
for (let tries = 0; tries < triesMax; tries++) {
  if (await stopDeserted(process.argv[2] as string)) break
  await delay(tryEveryMs)
}
