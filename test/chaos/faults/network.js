/** The connections between one process and the database. */
import { setTimeout as delay } from 'node:timers/promises'

const bytesMax = 6_000

/** What each fault does to the connections of a process, and for how long. */
export const breaks = {
  cut: (proxy) => {
    proxy.cut()
    return [0, 0]
  },
  'cut.byte': (proxy, random) => {
    proxy.cutWithin(bytesMax, random)
    return [200, 1_500]
  },
  halfOpen: (proxy) => {
    proxy.drop(['client', 'server'])
    return [500, 5_000]
  },
  oneWay: (proxy, random) => {
    proxy.drop([random.pick(['client', 'server'])])
    return [500, 5_000]
  },
  slow: (proxy, random) => {
    proxy.slowDown(random.integer(20, 300))
    return [500, 3_000]
  },
}

export async function breakNetwork(world, random, { fault, during, alone }) {
  const slot = random.pick(world.slots.filter(({ proxy }) => proxy.count > 0))
  if (slot === undefined) return // the database is away, and nobody has a connection
  await alone(`network ${slot.role}`, () =>
    during(fault, { role: slot.role, pid: slot.pid }, async () => {
      const lastsMs = breaks[fault](slot.proxy, random)
      await delay(random.integer(...lastsMs))
      slot.proxy.heal()
      await untilNoticed(world, slot)
    }),
  )
}

const noticedMsMax = 45_000

/** A statement may take 10 s, and whoever waits for its answer gives up soon after; what is idle is tried now and then. */
async function untilNoticed(world, { role, proxy }) {
  for (let waitedMs = 0; proxy.stuck > 0 && waitedMs < noticedMsMax; waitedMs += 100) await delay(100)
  if (proxy.stuck === 0) return
  world.record('unnoticed', { role, connections: proxy.stuck })
  proxy.cutStuck()
}
