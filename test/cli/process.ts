import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { fileURLToPath } from 'node:url'
import type { Command } from '../../src/cli/command.ts'
import { describeFailure } from '../../src/cli/describe-failure.ts'
import type { ServerAddress } from '../support/server.ts'

type Environment = Readonly<Record<string, string>>

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface Server {
  /** What it printed before it was ready. */
  readonly lines: readonly string[]
  readonly url: string
  readonly ended: Promise<Ended>
  signal(name?: NodeJS.Signals): void
  stop(): Promise<Ended>
}

export interface Listener {
  readonly pid: number
  /** The first line that matches, of those printed so far and of those to come. */
  line(pattern: RegExp): Promise<string>
  end(signal: NodeJS.Signals): Promise<Ended>
  stop(): Promise<Ended>
}

const main = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))
const living = new Set<ChildProcess>()
process.on('exit', () => {
  for (const child of living) child.kill('SIGKILL')
})

/** The built command with an environment of its own, to its end. */
export function posthorn(
  args: readonly string[],
  env: Environment = {},
  input: string | Uint8Array = '',
): Promise<Ended> {
  const child = start(args, env)
  child.stdin?.end(input)
  return endOf(child)
}

const commands: Readonly<Record<string, () => Promise<Command>>> = {
  serve: async () => (await import('../../src/cli/serve.ts')).serve,
  publish: async () => (await import('../../src/cli/publish.ts')).publish,
  listen: async () => (await import('../../src/cli/listen.ts')).listen,
  keys: async () => (await import('../../src/cli/keys.ts')).keys,
  migrate: async () => (await import('../../src/cli/migrate.ts')).migrate,
  doctor: async () => (await import('../../src/cli/doctor.ts')).doctor,
}

/** The same in this process, for commands that read nothing and end by themselves: starting a process takes longer. */
export async function posthornHere(
  [name, ...args]: readonly string[],
  env: Environment = {},
): Promise<Ended> {
  const command = await (commands[name as string] as () => Promise<Command>)()
  const lines: string[] = []
  const printed = () => lines.map((line) => `${line}\n`).join('')
  const before = process.env
  process.env = { ...inheritedVariables(), ...env }
  try {
    const code = await command.run(args, (line) => void lines.push(line))
    return { code, stdout: printed(), stderr: '' }
  } catch (error) {
    const { text, code } = describeFailure(error)
    return { code, stdout: printed(), stderr: `${text}\n` }
  } finally {
    process.env = before
  }
}

/** `posthorn serve` on a free port, ready. */
export async function serve(env: Environment): Promise<Server> {
  const child = start(['serve'], { PORT: '0', ...env })
  const ended = endOf(child)
  const lines = await Promise.race([readyLines(child), ended.then(() => [])])
  if (lines.length === 0) throw new Error(`It ended before it was ready: ${JSON.stringify(await ended)}`)
  const signal = (name: NodeJS.Signals = 'SIGTERM') => void child.kill(name)
  return {
    lines,
    url: `http://127.0.0.1:${/:(\d+)/.exec(lines[0] as string)?.[1]}`,
    ended,
    signal,
    stop: () => {
      signal()
      return ended
    },
  }
}

/** `posthorn listen`, from when its subscription exists. */
export async function listen(args: readonly string[], env: Environment): Promise<Listener> {
  const child = start(['listen', ...args], env)
  const ended = endOf(child)
  const line = lineReader(child, ended)
  await line(/ listens for /)
  const end = (signal: NodeJS.Signals) => {
    child.kill(signal)
    return ended
  }
  return { pid: child.pid as number, line, end, stop: () => end('SIGTERM') }
}

function lineReader(child: ChildProcess, ended: Promise<Ended>): Listener['line'] {
  let text = ''
  const looks = new Set<() => void>()
  child.stdout?.on('data', (bytes) => {
    text += bytes
    for (const look of looks) look()
  })
  return (pattern) =>
    new Promise((resolve, reject) => {
      const look = () => {
        const found = text
          .split('\n')
          .slice(0, -1)
          .find((one) => pattern.test(one))
        if (found !== undefined) resolve(found)
      }
      looks.add(look)
      look()
      void ended.then((end) => reject(new Error(`It ended without ${pattern}: ${JSON.stringify(end)}`)))
    })
}

/** Three of them; without an API there is nothing to try. */
function readyLines(child: ChildProcess): Promise<string[]> {
  let text = ''
  return new Promise((resolve) => {
    child.stdout?.on('data', (bytes) => {
      text += bytes
      const lines = text.split('\n').slice(0, -1)
      const count = lines[0]?.includes(' runs ') ? 2 : 3
      if (lines.length >= count) resolve(lines.slice(0, count))
    })
  })
}

export function urlOf({ host, port, user, database }: ServerAddress): string {
  return `postgres://${user}@/${database}?host=${encodeURIComponent(host)}&port=${port}`
}

/** Listens until it is closed, and says nothing to anybody. */
export async function takePort(): Promise<{ port: number; close(): Promise<void> }> {
  const server = createServer((socket) => socket.destroy())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const close = async () => void (await once(server.close(), 'close'))
  return { port: (server.address() as { port: number }).port, close }
}

function start(args: readonly string[], env: Environment): ChildProcess {
  const child = spawn(process.execPath, [main, ...args], {
    env: { ...inheritedVariables(), ...env },
    stdio: 'pipe',
  })
  living.add(child)
  child.once('exit', () => living.delete(child))
  return child
}

function inheritedVariables(): Record<string, string> {
  return { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '' }
}

async function endOf(child: ChildProcess): Promise<Ended> {
  let [stdout, stderr] = ['', '']
  child.stdout?.on('data', (bytes) => {
    stdout += bytes
  })
  child.stderr?.on('data', (bytes) => {
    stderr += bytes
  })
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, stdout, stderr }
}
