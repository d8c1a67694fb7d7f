/** What the driver does to processes, the network, the database and the clock. Each says when it began and ended. */
import { monotonicUs } from '../../crash/support/recorder.js'
import { stepClock } from './clock.js'
import { endDatabase, restartBouncer, slowCommits } from './database.js'
import { breakNetwork } from './network.js'
import { succeedOwner } from './owner.js'
import { end, freeze } from './processes.js'

const network = (weight, fault) => ({
  weight,
  run: (world, random, how) => breakNetwork(world, random, { fault, ...how }),
})
const frozen = (weight, length) => ({
  weight,
  run: (world, random, how) => freeze(world, random, { length, ...how }),
})
const clock = (weight, sign) => ({
  weight,
  run: (world, random, { during, alone }) => alone('clock', () => stepClock(world, random, { sign, during })),
})

/** @type {Record<string, { weight: number, needs?: 'server' | 'bouncer', run: (world: object, random: object, how: object) => Promise<void> }>} */
export const faults = {
  kill: {
    weight: 4,
    run: (world, random, how) => end(world, random, { fault: 'kill', signal: 'SIGKILL', ...how }),
  },
  terminate: {
    weight: 2,
    run: (world, random, how) => end(world, random, { fault: 'terminate', signal: 'SIGTERM', ...how }),
  },
  'freeze.short': frozen(2, 'short'),
  'freeze.long': frozen(2, 'long'),
  'freeze.owner': {
    weight: 1,
    run: (world, random, { during, alone }) =>
      alone('process memory', () =>
        succeedOwner(world, random, (fields, work) => during('freeze.owner', fields, work)),
      ),
  },
  cut: network(2, 'cut'),
  'cut.byte': network(2, 'cut.byte'),
  halfOpen: network(1, 'halfOpen'),
  oneWay: network(1, 'oneWay'),
  slow: network(1, 'slow'),
  'clock.forward': clock(2, 1),
  'clock.back': clock(2, -1),
  slowCommits: { weight: 1, needs: 'server', run: slowCommits },
  'database.kill': {
    ...{ weight: 1, needs: 'server' },
    run: (world, random, how) =>
      endDatabase(world, {
        ...{ fault: 'database.kill', signal: random.chance(0.6) ? 'SIGKILL' : 'SIGQUIT' },
        ...how,
      }),
  },
  'database.restart': {
    ...{ weight: 1, needs: 'server' },
    run: (world, _, how) => endDatabase(world, { fault: 'database.restart', signal: 'SIGINT', ...how }),
  },
  'bouncer.restart': {
    ...{ weight: 1, needs: 'bouncer' },
    run: (world, _, how) => restartBouncer(world, how),
  },
}

export function faultNames(world, wanted) {
  const all = Object.keys(faults).filter((name) => {
    const { needs } = faults[name]
    return needs === undefined || world[needs] !== undefined
  })
  if (wanted === 'none') return []
  return wanted === 'all' ? all : all.filter((name) => wanted.split(',').includes(name))
}

/** So long after a fault its leases end, its processes come back and what it interrupted is tried again. */
export const aftermathMs = 2_000

/** With more processes away than this, nobody is left whom a fault could meet at work: a slow machine starts them slowly. */
const awayMax = 2
const endsProcesses = /^(kill|terminate|freeze.owner|database)/

/** Several may last at once, but no two of the same thing: whoever comes second does nothing. */
export async function harm(world, random, name) {
  const away = world.slots.filter(({ isUp }) => !isUp).length
  if (away > awayMax && endsProcesses.test(name)) return
  const alone = async (what, work) => {
    if (world.harmed.has(what)) return
    world.harmed.add(what)
    try {
      await work()
    } finally {
      world.harmed.delete(what)
    }
  }
  const during = (fault, fields, work) => recordFault(world, { fault, ...fields }, work)
  await faults[name].run(world, random, { during, alone })
}

async function recordFault(world, fields, work) {
  const { fault, role, pid } = fields
  const lasting = { fault, role }
  world.lasting.add(lasting)
  const from = monotonicUs()
  world.record('fault', { ...fields, phase: 'begins' })
  await work()
  world.record('fault', { ...fields, phase: 'ends' })
  const to = monotonicUs()
  setTimeout(() => world.lasting.delete(lasting), aftermathMs).unref()
  // Whoever came into its place meanwhile had the same trouble.
  const slot = world.slots.find((one) => one.role === role)
  for (const one of slot?.pids ?? []) {
    if (one.pid === pid || one.at < from || one.at > to) continue
    world.record('fault', { ...fields, at: one.at, pid: one.pid, phase: 'begins' })
    world.record('fault', { ...fields, pid: one.pid, phase: 'ends' })
  }
}
