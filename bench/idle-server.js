/** `posthorn serve` in a process of its own, on a database of its own, with a counter between the two. */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { givenServers } from './server.js'
import { countWire } from './wire-counter.js'

const main = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url))
/** What Linux counts CPU time in, wherever Node runs. */
const ticksPerSecond = 100
const pageBytes = 4096

export async function startServe() {
  const { database } = givenServers()
  const name = `bench_idle_${process.pid}_${randomBytes(3).toString('hex')}`
  await administer(database, `create database ${name}`)
  const wire = await countWire(database)
  const child = spawn(process.execPath, [main, 'serve'], {
    env: {
      ...process.env,
      ...{ DATABASE_URL: urlOf(database, { name, port: wire.port }), PORT: '0', LOG_LEVEL: 'warn' },
      POSTHORN_SECRET_KEY: randomBytes(32).toString('base64'),
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = await Promise.race([
    once(createInterface({ input: child.stdout }), 'line'),
    once(child, 'exit').then(() => Promise.reject(new Error('posthorn serve ended'))),
  ])
  const url = `http://127.0.0.1:${/:(\d+)/.exec(line)[1]}`
  return {
    url,
    call: (method, path, body) => call(url + path, method, body),
    metrics: async () => (await fetch(`${url}/metrics`)).text(),
    takeQueries: () => wire.take(),
    cpuSeconds: () => {
      // After the name, which may hold anything: utime and stime are the 14th and 15th field.
      const fields = stat(child.pid, 'stat').split(') ').at(-1).split(' ')
      return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond
    },
    rssBytes: () => Number(stat(child.pid, 'statm').split(' ')[1]) * pageBytes,
    async stop() {
      const exited = once(child, 'exit')
      child.kill()
      await exited
      wire.stop()
      await administer(database, `drop database ${name} with (force)`)
    },
  }
}

async function call(url, method, body) {
  const response = await fetch(url, {
    method,
    ...(body !== undefined && {
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    }),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${method} ${url}: ${response.status} ${text.slice(0, 300)}`)
  return text === '' ? undefined : JSON.parse(text)
}

function stat(pid, file) {
  if (process.platform !== 'linux') throw new Error('B9 reads /proc: it needs Linux')
  return readFileSync(`/proc/${pid}/${file}`, 'utf8')
}

function urlOf(database, { name, port }) {
  const { username, password } =
    'connectionString' in database
      ? new URL(database.connectionString)
      : { username: database.user, password: database.password ?? '' }
  const secret = password === '' ? '' : `:${encodeURIComponent(password)}`
  return `postgres://${encodeURIComponent(username)}${secret}@127.0.0.1:${port}/${name}`
}

async function administer(database, text) {
  const client = new pg.Client(database)
  await client.connect()
  await client.query(text)
  await client.end()
}
