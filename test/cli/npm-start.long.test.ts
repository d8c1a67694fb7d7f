import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterEach, expect, test } from 'vitest'
import { eventually } from '../support/signal.ts'

/** `npm start` as a supervisor runs it: it knows npm's pid and nothing of what npm has started. */

const root = fileURLToPath(new URL('../..', import.meta.url))
const run = promisify(execFile)
let directory: string
let npm: ChildProcess
afterEach(async () => {
  // What a failed test has left is in npm's group, and ends its database by itself.
  for (const pid of await processesOf(npm)) process.kill(pid, 'SIGTERM')
  await eventually('all have ended', async () => (await processesOf(npm)).length === 0)
  await rm(directory, { recursive: true, force: true })
})

test.each(['SIGTERM', 'SIGKILL'] as const)(
  'npm start that is ended by its pid with %s leaves neither a process nor a port nor a database behind',
  async (signal) => {
    directory = await mkdtemp(join(tmpdir(), 'ph-npm-'))
    const dataDirectory = join(directory, 'data')
    const postmaster = join(dataDirectory, 'postgres', 'postmaster.pid')
    const url = await start(dataDirectory)
    expect((await fetch(`${url}/readyz`)).status).toBe(200)
    expect(existsSync(postmaster)).toBe(true)
    npm.kill(signal)
    await eventually('no process is left', async () => (await processesOf(npm)).length === 0)
    await expect(fetch(`${url}/livez`)).rejects.toMatchObject({ cause: { code: 'ECONNREFUSED' } })
    expect(existsSync(postmaster)).toBe(false)
  },
)

/** In a group of its own, which a signal to its pid alone does not reach. */
async function start(dataDirectory: string): Promise<string> {
  const { PATH = '', HOME = '' } = process.env
  npm = spawn('npm', ['start'], {
    ...{ cwd: root, detached: true, stdio: ['ignore', 'pipe', 'pipe'] },
    env: { PATH, HOME, PORT: '0', POSTHORN_DATA_DIR: dataDirectory },
  })
  let output = ''
  npm.stderr?.on('data', (bytes) => {
    output += bytes
  })
  const port = await new Promise<string>((resolve, reject) => {
    npm.stdout?.on('data', (bytes) => {
      output += bytes
      const found = /listens on http:\/\/127\.0\.0\.1:(\d+)[\s\S]*\ntry: /.exec(output)?.[1]
      if (found !== undefined) resolve(found)
    })
    void once(npm, 'close').then(() => reject(new Error(`It ended before it was ready: ${output}`)))
  })
  return `http://127.0.0.1:${port}`
}

async function processesOf({ pid }: ChildProcess): Promise<number[]> {
  const { stdout } = await run('ps', ['-A', '-o', 'pid=,pgid='])
  const rows = stdout.split('\n').map((line) => line.trim().split(/\s+/).map(Number))
  return rows.filter(([, group]) => group === pid).map(([one]) => one as number)
}
