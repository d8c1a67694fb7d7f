import { setTimeout as delay } from 'node:timers/promises'
import type { PosthornOptions } from '../config.ts'
import { openPosthorn } from '../create.ts'
import type { Catalogue } from '../domain/catalogue.ts'
import { integer } from '../domain/subscription.ts'
import { moveClock, readClockOffset } from '../engine/clock.ts'
import type { Posthorn } from '../posthorn.ts'
import { countBacklog } from './backlog.ts'
import { guardServer } from './guard-server.ts'

export interface TestPosthorn<C extends Catalogue = Catalogue> extends AsyncDisposable {
  readonly hub: Posthorn<C>
  /** The database's clock. Moving it is how a test waits. It is never set back: the next test goes on from there. */
  readonly clock: {
    advance(ms: number): Promise<void>
  }
  /** Resolves when all that can be done now is done; what is due later stays. */
  drain(timeoutMs?: number): Promise<void>
}

/**
 * A hub for tests on a real PostgreSQL: the same code, with a clock that the test moves. Upkeep runs when the
 * clock is moved, so nothing depends on how fast the machine is.
 */
export async function testPosthorn<const C extends Catalogue = Catalogue>(
  options: PosthornOptions<C> = {},
): Promise<TestPosthorn<C>> {
  const opened = await openPosthorn<C>({ log: false, upkeep: false, pollMs: 20, ...options })
  const { posthorn: hub, db, embedded } = opened
  if (embedded !== undefined) guardServer(embedded.dataDirectory)
  return {
    hub,
    clock: {
      async advance(ms) {
        integer('ms', ms, 0, Number.MAX_SAFE_INTEGER)
        await moveClock(db, (await readClockOffset(db)) + ms)
        while (await hub.sweep());
        hub.wake()
      },
    },
    async drain(timeoutMs = 10_000) {
      const deadline = performance.now() + timeoutMs
      for (;;) {
        const { ready, leased } = await countBacklog(db)
        const inMemory = hub.memory.views.filter(({ isBusy }) => isBusy)
        if (ready === 0 && leased === 0 && inMemory.length === 0) return
        if (performance.now() > deadline) throw new Error(`Not drained: ${ready} ready, ${leased} leased`)
        await delay(5)
      }
    },
    [Symbol.asyncDispose]: () => hub.stop(),
  }
}
