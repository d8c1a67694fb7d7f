/** A place for a process that is killed, frozen, stopped and replaced, always under the same name and port. */
import { setTimeout as delay } from 'node:timers/promises'
import { startProcess } from '../crash/support/processes.js'
import { monotonicUs } from '../crash/support/recorder.js'
import { commandMsMax } from './limits.js'
import { openProxy } from './proxy.js'

/** Of processes that name several servers, and find the right one by themselves. */
const noProxy = { count: 0, stuck: 0, heal: () => undefined, close: async () => undefined }

/** The one that an operation is aimed at, if it can do it; else any of that role. */
export function slotFor(world, random, role) {
  const slots = world.of(role)
  return slots.find((slot) => slot.role === world.aim) ?? random.pick(slots)
}

/**
 * @param {{ record: (kind: string, fields?: object) => void, connection: object }} world
 * @param {{ role: string, file: string, config: () => object }} what `config` is asked anew at every start
 */
export async function openSlot(world, { role, file, config, connection = world.connection }) {
  const proxy = typeof connection === 'string' ? noProxy : await openProxy(connection)
  const url = new URL(`./processes/${file}`, import.meta.url)
  let process
  let commands = 0
  let starts = 0
  let isClosed = false
  let isFrozen = false
  let starting
  const formers = new Set()
  /** Every process that was here, and since when. */
  const pids = []
  let open = new Map()

  const start = async () => {
    const workerId = `${world.schema}.${role}.${++starts}`
    const database = typeof connection === 'string' ? connection : { ...connection, ...proxy.connection }
    const own = await startProcess(url, { database, workerId, ...world.shared(), ...config() })
    const calls = new Map()
    process = own
    open = calls
    const { pid, ended } = own
    pids.push({ pid, at: monotonicUs() })
    world.record('process', { role, pid })
    own.listen(({ no, ...answer }) => {
      calls.get(no)?.(answer)
      calls.delete(no)
    })
    void ended.then(({ code, signal, complaint }) => {
      world.record('died', {
        role,
        pid,
        code,
        signal,
        ...(complaint && { complaint: complaint.slice(-3_500) }),
      })
      for (const answer of calls.values()) answer({ type: 'info', code: 'DIED' })
      calls.clear()
      if (process !== own) return // it has a successor
      isFrozen = false
      if (!isClosed) starting = restart()
    })
  }
  const restart = async () => {
    await delay(50)
    // A database that is down for the moment: the process is started again until it is up.
    for (let tries = 0; !isClosed && tries < 50; tries++) {
      try {
        return await start()
      } catch (error) {
        world.record('start failed', { role, why: String(error.message).slice(0, 500) })
        await delay(300)
      }
    }
  }
  await start()
  return {
    role,
    proxy,
    get pid() {
      return process.pid
    },
    get isFrozen() {
      return isFrozen
    },
    get isUp() {
      return process.alive
    },
    pids,
    /** @returns {Promise<{ type: 'ok' | 'fail' | 'info', value?: any, code?: string }>} */
    async command(command, args = {}) {
      if (!process.alive) return { type: 'fail', code: 'DOWN', role }
      const no = ++commands
      const waiting = open
      const answer = new Promise((resolve) => waiting.set(no, resolve))
      process.send({ no, command, args }, (error) => {
        if (error === null || !waiting.has(no)) return
        waiting.get(no)({ type: 'info', code: 'CHANNEL' })
        waiting.delete(no)
      })
      const late = delay(commandMsMax, { type: 'info', code: 'LATE' }, { ref: false })
      return { ...(await Promise.race([answer, late])), role }
    },
    signal(name) {
      if (process.alive) process.signal(name)
      isFrozen = name === 'SIGSTOP' || (isFrozen && name !== 'SIGCONT')
      return { pid: process.pid, at: monotonicUs() }
    },
    /** Until another process is here than that one, and works. */
    async replaced(pid) {
      for (let waited = 0; waited < 1_200 && !isClosed && process.pid === pid; waited++) await delay(50)
      await starting
    },
    /** Until a process is up again that was killed or stopped. */
    async up() {
      for (let waited = 0; waited < 300 && (!process.alive || isFrozen); waited++) await delay(50)
      await starting
    },
    /** Another process takes the place of this one, which is on its own from now on. */
    async succeed() {
      const former = process
      former.ended.then(() => formers.delete(former))
      formers.add(former)
      isFrozen = false
      starting = restart()
      await starting
      return former
    },
    async close() {
      isClosed = true
      await starting
      for (const former of formers) await former.kill()
      if (process.alive) await process.kill()
      await proxy.close()
    },
  }
}
