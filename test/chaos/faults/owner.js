/** The owner of a memory queue is frozen until another process has the queue, and then goes on. */
import { setTimeout as delay } from 'node:timers/promises'
import { planEvent } from '../operations/planning.js'
import { publishByLibrary } from '../operations/publishing.js'

const backlog = 120
const afterwardsMs = 1_500
const stopMsMax = 10_000

/** @returns whether there was a memory queue to take over */
export async function succeedOwner(world, random, during) {
  const [slot] = world.of('memory')
  await slot.up()
  if (slot.isFrozen || world.state.memory.options.storage !== 'memory') return
  // Something must wait in its memory, and some of it must be persisted.
  const planned = Array.from({ length: backlog }, () =>
    planEvent(world, random, 'memory', {
      ...{ tags: null, delayMs: null, expiresMs: null, ckey: null, idem: null, maxRetries: null },
      payload: { ms: random.integer(40, 120), o: [] },
    }),
  )
  await publishByLibrary(world, random, planned, 'publish.memory', 'memory')
  await slot.command('checkpoint', { name: 'memory' })
  const { pid } = slot
  await during({ role: slot.role, pid }, async () => {
    slot.signal('SIGSTOP')
    const former = await slot.succeed()
    world.record('succession', { former: pid, successor: slot.pid })
    await delay(random.integer(0, 500))
    if (former.alive) former.signal('SIGCONT')
    await delay(afterwardsMs)
    if (!former.alive) return
    const stopped = await Promise.race([former.stop(), delay(stopMsMax, 'late')])
    if (stopped === 'late') await former.kill()
  })
}
