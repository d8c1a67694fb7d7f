import { constants } from 'node:fs'
import { open, stat } from 'node:fs/promises'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { PosthornError } from '../../errors.ts'

/** Longer than the longest start: a waiting process must outlast the crash recovery of the holder. */
const waitMsMax = 330_000

interface Lock {
  release(): Promise<void>
}

/**
 * Runs `work` while no other process works on the same directory. The kernel owns the lock, so the lock ends with the
 * process that holds it: after a `kill -9` no later start has to decide whether a lock is stale.
 */
export async function withLock<T>(directory: string, work: () => Promise<T>): Promise<T> {
  const lock = process.platform === 'linux' ? await lockByName(directory) : await lockByFile(directory)
  try {
    return await work()
  } finally {
    await lock.release()
  }
}

/**
 * On Linux the lock is a name in the abstract socket namespace, made of the directory's inode, so that every path to the
 * directory gives the same lock. A waiting process connects to the holder; the connection closes when the lock is free.
 */
async function lockByName(directory: string): Promise<Lock> {
  const { dev, ino } = await stat(directory, { bigint: true })
  const name = `\0posthorn-${dev}-${ino}`
  const deadline = performance.now() + waitMsMax
  for (;;) {
    const lock = await listenOn(name)
    if (lock) return lock
    const holder = await waitForRelease(name, deadline - performance.now())
    if (performance.now() >= deadline) throw heldTooLong(directory, holder)
  }
}

function listenOn(name: string): Promise<Lock | undefined> {
  const waiting = new Set<Socket>()
  const server = createServer((socket) => {
    waiting.add(socket)
    socket.on('error', () => socket.destroy())
    socket.on('close', () => waiting.delete(socket))
    socket.write(`${process.pid}`)
  })
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(undefined)
      else reject(error)
    })
    server.listen(name, () => resolve({ release: () => release(server, waiting) }))
  })
}

function release(server: Server, waiting: ReadonlySet<Socket>): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    for (const socket of waiting) socket.destroy()
  })
}

/** Resolves with the holder's pid, if it was sent, when the lock may be free or the time is over. */
function waitForRelease(name: string, waitMs: number): Promise<string> {
  return new Promise((resolve) => {
    let pid = ''
    const socket = connect(name)
    const timer = setTimeout(() => socket.destroy(), waitMs)
    socket.on('data', (chunk) => {
      pid += chunk.toString()
    })
    // A refused connection means that the holder has just gone (or that its backlog is full).
    socket.on('error', () => socket.destroy())
    socket.on('close', async (hadError) => {
      clearTimeout(timer)
      if (hadError) await delay(10)
      resolve(pid)
    })
  })
}

/** macOS and the BSDs can lock a file in open(2). Node passes the flag on but has no name for it. */
const openExclusiveLock = 0x20

async function lockByFile(directory: string): Promise<Lock> {
  const { O_RDWR, O_CREAT, O_NONBLOCK } = constants
  const deadline = performance.now() + waitMsMax
  for (;;) {
    try {
      const flags = O_RDWR | O_CREAT | O_NONBLOCK | openExclusiveLock
      const file = await open(join(directory, 'posthorn.lock'), flags, 0o600)
      return { release: () => file.close() }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
    }
    if (performance.now() >= deadline) throw heldTooLong(directory, '')
    await delay(25)
  }
}

function heldTooLong(directory: string, pid: string): PosthornError {
  const reason = `it has been starting or stopping the server for ${waitMsMax / 1000} s`
  return new PosthornError('DATA_DIRECTORY_IN_USE', { directory, pid: pid || 'unknown', reason })
}
