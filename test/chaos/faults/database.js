/** The database and PgBouncer before it. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'

export async function slowCommits(world, random, { during, alone }) {
  const set = async (text) => {
    await world.persist(text)
    await world.persist('select pg_reload_conf()')
  }
  await alone('commits', () =>
    during('slowCommits', {}, async () => {
      await set('alter system set commit_siblings = 0')
      await set('alter system set commit_delay = 80000')
      await delay(random.integer(500, 2_500))
      await set('alter system reset commit_delay')
    }),
  )
}

/** The postmaster only: its backends notice and follow. Whoever keeps the server starts it again. */
export async function endDatabase(world, { fault, signal, during, alone }) {
  await alone('database', async () => {
    const file = join(world.server.dataDirectory, 'postgres', 'postmaster.pid')
    if (!existsSync(file)) return
    const postmaster = Number(readFileSync(file, 'utf8').split('\n')[0])
    await during(fault, { postmaster }, async () => {
      process.kill(postmaster, signal)
      await untilBack(world, postmaster, file)
    })
  })
}

const backMsMax = 90_000

/** A server that shuts down in order still answers for a moment: another one must be there. */
async function untilBack(world, former, file) {
  for (let waitedMs = 0; waitedMs < backMsMax; waitedMs += 100) {
    await delay(100)
    const pid = existsSync(file) ? Number(readFileSync(file, 'utf8').split('\n')[0]) : former
    if (pid === former) continue
    const isBack = await world.query('select 1').then(
      () => true,
      () => false,
    ) // still down
    if (isBack) return
  }
  throw new Error(`The database did not come back within ${backMsMax / 1000} s.`)
}

/** All of its clients and servers are gone at once. */
export async function restartBouncer(world, { during, alone }) {
  const [slot] = world.of('worker.bouncer')
  await alone(`network ${slot.role}`, () =>
    during('bouncer.restart', { role: slot.role, pid: slot.pid }, () => world.bouncer.restart()),
  )
}
