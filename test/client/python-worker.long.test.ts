import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { PosthornClient } from '../../src/client/index.ts'
import { useServers } from '../support/http.ts'
import { eventually } from '../support/signal.ts'

const example = new URL('../../examples/pull-worker.py', import.meta.url).pathname
const text = readFileSync(example, 'utf8').trimEnd()
const guide = readFileSync(new URL('../../docs/guides/workers.md', import.meta.url), 'utf8')
const servers = useServers('python_worker')
const started: ChildProcess[] = []
const fakes: Server[] = []
afterEach(() => {
  for (const child of started.splice(0)) child.kill('SIGKILL')
  for (const fake of fakes.splice(0)) {
    fake.close()
    fake.closeAllConnections()
  }
})

const hasPython = spawnSync('python3', ['--version']).status === 0

test('the guide shows the example as it is, and it is short', () => {
  expect(guide).toContain(`\`\`\`python\n${text}\n\`\`\``)
  expect(text.split('\n').length).toBeLessThanOrEqual(60)
})

describe.skipIf(!hasPython)('a worker in plain Python', () => {
  test('works off events, and ends at once when told to', async () => {
    const { url, hub } = await servers.open()
    const client = new PosthornClient({ url })
    const { worker, printed } = run(url)
    const events = await client.publishMany(
      [7, 8].map((n) => ({ title: `invoice ${n}`, tags: 'pdf', payload: { n } })),
    )
    for (const { id } of events) {
      await eventually('it is completed', async () => (await client.event(id)).status === 'COMPLETED')
    }
    expect(printed.stdout).toBe("invoice 7 {'n': 7}\ninvoice 8 {'n': 8}\n")
    await eventually('it waits for more', () => hub.pull.waiting === 1)
    worker.kill('SIGTERM')
    const [code] = await once(worker, 'exit')
    expect(code).toBe(0)
    await eventually('its poll is gone', () => hub.pull.waiting === 0)
  })

  test('hands an event back that is cancelled meanwhile', async () => {
    const { url } = await servers.open()
    const client = new PosthornClient({ url })
    run(url, changed('stop.wait(30)'))
    const [event] = await client.publishMany([{ title: 'invoice 7', tags: 'pdf', payload: 7 }])
    const id = event?.id as number
    await eventually('it is begun', async () => (await client.event(id)).status === 'PROCESSING')
    await client.cancel(id)
    await eventually('it is cancelled', async () => (await client.event(id)).status === 'CANCELLED')
  })

  test.each(['stop.wait(30)', '(stop.wait(30), 1 / 0)'])(
    'hands an event back whose lease is lost: %s',
    async (handler) => {
      const { url, verbs } = await fake((verb, answer) => json(answer, verb === 'heartbeat' ? 409 : 200, {}))
      run(url, changed(handler))
      await eventually('it is settled', () => verbs.some((verb) => verb !== 'heartbeat'))
      expect(verbs.filter((verb) => verb !== 'heartbeat')).toEqual(['release'])
    },
  )

  test('an answer that breaks off does not turn a success into a failure', async () => {
    let told = 0
    const { url, verbs } = await fake((_, answer) => {
      if (++told > 1) return json(answer, 200, {})
      answer.writeHead(200, { 'content-type': 'application/json', 'content-length': 100 })
      answer.write('{', () => answer.destroy())
    })
    run(url)
    await eventually('it is settled', () => told === 2)
    expect(verbs).toEqual(['complete', 'complete'])
  })

  test.each([401, 403, 404, 422])('says why it is refused with %i, and ends', async (status) => {
    const { url } = await fake(undefined, (answer) => json(answer, status, { detail: 'Not like this.' }))
    const { worker, printed } = run(url)
    expect(await once(worker, 'close')).toEqual([1, null])
    expect(printed).toEqual({ stdout: '', stderr: `${url} answered ${status}: Not like this.\n` })
  })

  test('what is not Posthorn is told so', async () => {
    const { url } = await fake(undefined, (answer) => void answer.end('<html>'))
    const { worker, printed } = run(url)
    expect(await once(worker, 'close')).toEqual([1, null])
    expect(printed.stderr).toBe(`${url} answered 200: this is not Posthorn\n`)
  })

  test.each([429, 503])('comes back after %i when it is told to', async (status) => {
    const at: number[] = []
    const { url } = await fake(undefined, (answer) => {
      at.push(performance.now())
      json(answer, at.length === 1 ? status : 401, {}, { 'retry-after': '2' })
    })
    await once(run(url).worker, 'exit')
    const [first, second] = at as [number, number]
    expect(second - first).toBeGreaterThan(1_900)
  })
})

/** The example with another handler, and with heartbeats that a test can wait for. */
function changed(handler: string): string {
  const [beat, last] = ['done.wait(20)', 'print(event["title"], event["payload"], flush=True)']
  expect(text).toContain(beat)
  expect(text).toContain(last)
  return text.replace(beat, 'done.wait(0.1)').replace(last, handler)
}

function run(url: string, program = text) {
  const worker = spawn('python3', ['-c', program], { env: { ...process.env, POSTHORN_URL: url } })
  started.push(worker)
  const printed = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    worker[name].on('data', (chunk) => {
      printed[name] += chunk
    })
  }
  return { worker, printed }
}

/** A server that hands out one event, unless told otherwise, and remembers what it is told of it. */
async function fake(
  settle: (verb: string, answer: ServerResponse) => void = (_, answer) => json(answer, 200, {}),
  subscribe?: (answer: ServerResponse) => void,
) {
  const verbs: string[] = []
  let isTaken = false
  const server = createServer((request, answer) => {
    const verb = /^\/events\/7\/(\w+)$/.exec(request.url ?? '')?.[1]
    if (verb !== undefined) {
      verbs.push(verb)
      return settle(verb, answer)
    }
    if (subscribe !== undefined) return subscribe(answer)
    // Whoever asks for a second one waits.
    if (!isTaken) json(answer, 200, { id: 7, title: 'a', payload: 1, lease_token: 't' })
    isTaken = true
  })
  fakes.push(server)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, verbs }
}

function json(answer: ServerResponse, status: number, body: object, headers: Record<string, string> = {}) {
  answer.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}
