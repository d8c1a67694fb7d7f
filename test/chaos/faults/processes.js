/** Processes are killed, asked to end, and frozen. */
import { setTimeout as delay } from 'node:timers/promises'

const victims = ['worker', 'server', 'puller', 'memory', 'worker', 'receiver', 'client']
/** Leases of handlers last 3 s, those of pull workers 1 to 3 s, the claim of a memory queue 5 s. */
const frozenMs = { short: [100, 900], long: [3_500, 8_000] }

/** Over when another process is in its place and works. */
export async function end(world, random, { fault, signal, during, alone }) {
  const slot = pickSlot(world, random)
  if (isLastOfItsKind(world, slot) && random.chance(0.8)) return
  await alone(`process ${slot.role}`, async () => {
    await slot.up()
    const { role, pid } = slot
    await untilAtWork(slot)
    await during(fault, { role, pid }, async () => {
      slot.signal(signal)
      await slot.replaced(pid)
    })
  })
}

/** Mostly one server and one worker stay: with none of them, nothing else can happen. */
function isLastOfItsKind(world, { role }) {
  const others = world.of(role.replace(/[\d.].*$/, '')).filter((other) => other.role !== role)
  return others.length > 0 && others.every((one) => !one.isUp || world.harmed.has(`process ${one.role}`))
}

/** Most attempts are short: a moment is waited for in which there is one, so that a lease dies with its process. */
async function untilAtWork(slot) {
  if (slot.role.startsWith('server')) return // it always has something to do, and takes no orders
  for (let tries = 0; tries < 50; tries++) {
    const { type, value } = await slot.command('underWay')
    if (type !== 'ok' || value === undefined || value > 0) return
    await delay(20)
  }
}

export async function freeze(world, random, { length, during, alone }) {
  const slot = pickSlot(world, random)
  await alone(`process ${slot.role}`, async () => {
    await slot.up()
    const { role, pid } = slot
    await during(`freeze.${length}`, { role, pid }, async () => {
      slot.signal('SIGSTOP')
      await delay(random.integer(...frozenMs[length]))
      if (slot.pid === pid) slot.signal('SIGCONT')
    })
  })
}

function pickSlot(world, random) {
  const roles = (world.victims ?? victims).filter((role) => world.of(role).length > 0)
  return random.pick(world.of(random.pick(roles)))
}
