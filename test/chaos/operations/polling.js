/** The library's way to pull: poll one, finalize it. */
import { slotFor } from '../slots.js'

export const polling = {
  poll: { weight: 6, place: 'worker', run: poll },
}

async function poll(world, random) {
  const slot = slotFor(world, random, 'worker')
  await world.operate('poll', { s: 'polled' }, () =>
    slot.command('poll', { leaseSecs: random.integer(1, 3) }),
  )
}

/** Nobody else empties that queue. */
export async function pollAll(world) {
  for (;;) {
    const answers = await Promise.all(
      world
        .of('worker')
        .map((slot) => world.operate('poll', { s: 'polled' }, () => slot.command('poll', { leaseSecs: 3 }))),
    )
    if (answers.every(({ value }) => value == null)) return
  }
}
