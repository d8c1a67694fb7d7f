import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { monotonicUs } from './recorder.js'

const living = new Set()
process.on('exit', () => {
  for (const child of living) child.kill('SIGKILL')
})

/**
 * Starts a process and waits until it says that it works. It ends by itself when its parent does.
 * @param {string | URL} file of `workers/`, or wherever it is
 * @param {object} config
 */
export async function startProcess(file, config) {
  const path = fileURLToPath(file instanceof URL ? file : new URL(`../workers/${file}`, import.meta.url))
  const child = fork(path, [JSON.stringify(config)], {
    stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
    execArgv: [],
  })
  living.add(child)
  child.once('exit', () => living.delete(child))
  let complaint = ''
  child.stderr.on('data', (bytes) => {
    complaint = (complaint + bytes).slice(-4_000)
  })
  const ended = once(child, 'exit').then(([code, signal]) => ({ code, signal, complaint }))
  const [first] = await Promise.race([once(child, 'message'), ended.then((end) => [end])])
  if (first !== 'ready') throw new Error(`${file} ended before it was ready: ${JSON.stringify(first)}`)
  return {
    pid: child.pid,
    name: config.workerId,
    ended,
    get alive() {
      return child.exitCode === null && child.signalCode === null
    },
    signal: (name) => process.kill(child.pid, name),
    /** @param {(error: Error | null) => void} [sent] whoever gives it is told of a process that is gone; else it throws */
    send: (message, sent) => child.send(message, sent),
    /** @param {(message: unknown) => void} listener of every message from now on */
    listen: (listener) => child.on('message', listener),
    /** The next message from the process. */
    answer: async () => (await once(child, 'message'))[0],
    /** @returns {Promise<number>} a moment at which it surely still lived */
    async kill() {
      const at = monotonicUs()
      process.kill(child.pid, 'SIGKILL')
      await ended
      return at
    },
    async stop() {
      process.kill(child.pid, 'SIGTERM')
      return ended
    },
  }
}
