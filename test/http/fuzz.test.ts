import { expect, test } from 'vitest'
import { openApiDocument } from '../../src/http/docs/openapi.ts'
import { apiRoutes } from '../../src/http/routes/index.ts'
import type { Hub } from '../../src/hub.ts'
import { createLogger } from '../../src/observe/log.ts'
import { type TestServer, useServers } from '../support/http.ts'
import { complaintsOf, payloadComplaints } from './fuzz/checks.ts'
import { sendUntilClosed } from './fuzz/connection.ts'
import { fuzz, type Target } from './fuzz/fuzz.ts'
import { brokenRequests, hostileBodies, hostilePayloads } from './fuzz/hostile.ts'

/**
 * Random requests to every route, made from the OpenAPI document, and what must hold of each answer.
 *
 *   POSTHORN_FUZZ_REQUESTS   how many instead of 2,000; chaos/fuzz-api.js does ten times as many
 *   POSTHORN_FUZZ_SEED       a seed that was printed, to see its failure again
 */
const requests = Number(process.env.POSTHORN_FUZZ_REQUESTS || 2_000)
const seed = Number(process.env.POSTHORN_FUZZ_SEED || 1)

const servers = useServers('fuzz')
const adminKey = 'a key for fuzzing, long enough'
const routes = apiRoutes({} as Hub, { isDraining: () => false, version: '0.0.0' })
const document = openApiDocument(routes, { version: '0.0.0' })

const patience = { timeout: 60_000 + requests * 250 }

test(`every answer is one that the document has (${requests} requests, seed ${seed})`, patience, async () => {
  const trouble: string[] = []
  const log = createLogger('error', { write: (line) => void trouble.push(line) })
  const hub = { secretKey: Buffer.alloc(32, 7).toString('base64') }
  const open = await servers.open({ log, hub })
  const keyed = await servers.open({ log, hub, adminKey })
  const targets = [toTarget(open), toTarget(keyed, [['Authorization', `Bearer ${adminKey}`]])]
  const report = await fuzz({ document, routes, targets, requests, seed })
  process.stdout.write(`fuzz (seed ${seed}): ${report.lines().join('\n  ')}\n`)
  expect([...report.violations, ...trouble.slice(0, 5)].join('\n')).toBe('')
  expect(({} as Record<string, unknown>).polluted).toBeUndefined()
  // Or nothing was shown: there was work, it was leased, and tokens were right, old and wrong.
  for (const vital of ['publishEvent 201', 'publishEvent 202', 'publishEvents 201', 'subscribe 200'])
    expect(report.byRoute.get(vital), vital).toBeGreaterThan(10)
  for (const vital of ['completeEvent 200', 'completeEvent 409', 'failEvent 200', 'heartbeat 200'])
    expect(report.byRoute.get(vital), vital).toBeGreaterThan(0)
  expect(report.compared).toBeGreaterThan(100)
})

function toTarget({ url, clock }: TestServer, more: Target['headers'] = []): Target {
  const { host, port } = new URL(url)
  return { port: Number(port), headers: [['Host', host], ...more], advance: (ms) => clock.advance(ms) }
}

test('hostile bodies are refused, or stored byte for byte', async () => {
  const server = await servers.open()
  const wrong: string[] = []
  for (const { what, body, expected, headers = {} } of [...hostilePayloads, ...hostileBodies]) {
    const { status, text, json } = await server.call('POST', '/events', body, headers)
    if (expected !== 'stored') {
      if (status !== expected) wrong.push(`${what}: ${status} ${text.slice(0, 300)}`)
      continue
    }
    const read = await server.call('GET', `/events/${json?.id}`)
    const payload = String(body).slice('{"type":"hostile","payload":'.length, -1)
    if (status !== 202) wrong.push(`${what}: ${status} ${text.slice(0, 300)}`)
    else wrong.push(...payloadComplaints(read.text, payload).map((complaint) => `${what}: ${complaint}`))
  }
  expect(wrong).toEqual([])
  expect(({} as Record<string, unknown>).polluted).toBeUndefined()
})

test('what is no HTTP is answered as the rest is, and cut off', async () => {
  const server = await servers.open()
  const { host, port } = new URL(server.url)
  const wrong: string[] = []
  for (const [what, text, isCutOff = false] of brokenRequests(host)) {
    const answers = await sendUntilClosed(Number(port), Buffer.from(text, 'latin1'), { isCutOff })
    if (answers.length === 0) wrong.push(`${what}: no answer`)
    for (const answer of answers)
      wrong.push(
        ...complaintsOf(answer).map(
          (complaint) => `${what}: ${answer.status} ${complaint} ${answer.body.toString().slice(0, 200)}`,
        ),
      )
  }
  expect(wrong.join('\n')).toBe('')
  expect((await server.call('GET', '/readyz')).status).toBe(200)
})
