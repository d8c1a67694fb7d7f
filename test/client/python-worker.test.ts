import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { afterEach, expect, test } from 'vitest'
import { PosthornClient } from '../../src/client/index.ts'
import { useServers } from '../support/http.ts'
import { eventually } from '../support/signal.ts'

const example = new URL('../../examples/pull-worker.py', import.meta.url).pathname
const guide = readFileSync(new URL('../../docs/guides/workers.md', import.meta.url), 'utf8')
const servers = useServers('python_worker')
const started: ChildProcess[] = []
afterEach(() => {
  for (const child of started.splice(0)) child.kill('SIGKILL')
})

test('the guide shows the example as it is, and it is short', () => {
  const text = readFileSync(example, 'utf8').trimEnd()
  expect(guide).toContain(`\`\`\`python\n${text}\n\`\`\``)
  expect(text.split('\n').length).toBeLessThanOrEqual(60)
})

test.skipIf(spawnSync('python3', ['--version']).status !== 0)(
  'a worker in plain Python works off events, and ends at once when told to',
  async () => {
    const { url, hub } = await servers.open()
    const client = new PosthornClient({ url })
    const worker = spawn('python3', [example], { env: { ...process.env, POSTHORN_URL: url } })
    started.push(worker)
    let printed = ''
    worker.stdout.on('data', (chunk) => {
      printed += chunk
    })
    const events = await client.publishMany(
      [7, 8].map((n) => ({ title: `invoice ${n}`, tags: 'pdf', payload: { n } })),
    )
    for (const { id } of events) {
      await eventually('it is completed', async () => (await client.event(id)).status === 'COMPLETED')
    }
    expect(printed).toBe("invoice 7 {'n': 7}\ninvoice 8 {'n': 8}\n")
    await eventually('it waits for more', () => hub.pull.waiting === 1)
    worker.kill('SIGTERM')
    const [code] = await once(worker, 'exit')
    expect(code).toBe(0)
    await eventually('its poll is gone', () => hub.pull.waiting === 0)
  },
)
