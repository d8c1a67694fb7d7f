import { once } from 'node:events'
import { createServer, type Server as HttpServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { hostname } from 'node:os'
import { buffer } from 'node:stream/consumers'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { PosthornClient } from '../../src/client/index.ts'
import { verify } from '../../src/webhooks/index.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { eventually } from '../support/signal.ts'
import { type Listener, listen, posthorn, type Server, serve, takePort, urlOf } from './process.ts'

interface Received {
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`
const host = hostname()
  .replace(/[^A-Za-z0-9_.-]/g, '-')
  .slice(0, 80)

describe('listen', () => {
  let database: TestDatabase
  let server: Server
  let client: PosthornClient
  const receivers: HttpServer[] = []
  const listeners: Listener[] = []
  beforeAll(async () => {
    database = await createTestDatabase('cli_listen')
    server = await serve({ DATABASE_URL: urlOf(database.connection) })
    client = new PosthornClient({ url: server.url })
  })
  afterEach(async () => {
    await Promise.all(listeners.splice(0).map((listener) => listener.stop()))
    for (const receiver of receivers.splice(0)) receiver.close().closeAllConnections()
  })
  afterAll(async () => {
    await server.stop()
    await database.drop()
  })

  async function start(args: readonly string[]): Promise<Listener> {
    const listener = await listen(args, { POSTHORN_URL: server.url })
    listeners.push(listener)
    return listener
  }

  /** Answers with these statuses one after the other, and with the last from then on. */
  async function receiving(...statuses: number[]) {
    const received: Received[] = []
    const receiver = createServer(async (request, response) => {
      received.push({ headers: request.headers, body: await buffer(request) })
      const status = statuses[Math.min(received.length, statuses.length) - 1] as number
      response.writeHead(status, { 'x-answer': `${status}` }).end('\u001b[31mthanks')
    })
    receivers.push(receiver)
    await once(receiver.listen(0, '127.0.0.1'), 'listening')
    return { received, url: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hooks` }
  }

  const subscribers = async () => (await client.subscribers.list()).map(({ name }) => name)

  test('forwards what is published, signed, until the receiver takes it', async () => {
    const { received, url } = await receiving(500, 204)
    const { line } = await start(['--forward', url, '--secret', secret, '--types', 'forwarded.*'])
    await client.publish({ type: 'other', payload: 0 })
    const { id } = await client.publish({ type: 'forwarded.once', payload: { n: 1 } })

    expect(await line(/attempt 1/)).toMatch(
      new RegExp(`^\\d\\d:\\d\\d:\\d\\d forwarded\\.once ${id} attempt 1 → 500 in \\d+ ms, again in 1 s$`),
    )
    expect(await line(/attempt 2/)).toMatch(
      new RegExp(`^\\d\\d:\\d\\d:\\d\\d forwarded\\.once ${id} attempt 2 → 204 in \\d+ ms$`),
    )
    const seen = received.map(({ headers, body }) => verify(body, headers, secret))
    expect(seen).toMatchObject([
      { eventId: id, attempt: 1 },
      { eventId: id, attempt: 2 },
    ])
    expect(JSON.parse(String(received[0]?.body))).toMatchObject({ type: 'forwarded.once', data: { n: 1 } })
    const { deliveries } = await client.event(id)
    expect(seen.map((webhook) => webhook.id)).toEqual([deliveries[0]?.id, deliveries[0]?.id])
    await eventually('it is settled', async () => (await client.event(id)).status === 'COMPLETED')
  })

  test('signs with a secret of its own if it is given none, and prints that', async () => {
    const { received, url } = await receiving(200)
    const { line } = await start(['--forward', url, '--types', 'signed', '--format', 'raw'])
    const own = /whsec_\S+/.exec(await line(/^They are signed with/))?.[0] as string
    await client.publish({ type: 'signed', payload: [1] })
    await line(/→ 200/)
    const [{ headers, body } = { headers: {}, body: '' }] = received
    expect(verify(body, headers, own)).toMatchObject({ attempt: 1 })
    expect(String(body)).toBe('[1]')
  })

  test('gives up what the receiver will never take, as for a webhook', async () => {
    const { received, url } = await receiving(400)
    const { line } = await start(['--forward', url, '--types', 'bad'])
    const { id } = await client.publish({ type: 'bad', payload: null })
    expect(await line(/attempt 1/)).toMatch(/→ 400 in \d+ ms, given up$/)
    await eventually('it is buried', async () => (await client.event(id)).status === 'FAILED')
    expect(received).toHaveLength(1)
  })

  test('follows no redirect', async () => {
    const { received, url } = await receiving(307)
    const { line } = await start(['--forward', url, '--types', 'redirected'])
    await client.publish({ type: 'redirected', payload: null })
    expect(await line(/attempt 1/)).toMatch(/→ 307 in \d+ ms, given up$/)
    expect(received).toHaveLength(1)
  })

  test('waits for a receiver that is not there, and counts no failure', async () => {
    const { port, close } = await takePort()
    await close()
    const { line } = await start(['--forward', `http://127.0.0.1:${port}/`, '--types', 'early'])
    const { id } = await client.publish({ type: 'early', payload: null })
    expect(await line(/attempt 1/)).toMatch(/ECONNREFUSED.* in \d+ ms, again in 2 s$/)
    await eventually('it waits', async () => (await client.event(id)).status === 'PENDING')
    expect((await client.event(id)).deliveries[0]).toMatchObject({ failures: 0 })
  })

  test('shows headers and bodies if asked, and lets nobody steer the terminal', async () => {
    const { url } = await receiving(200)
    const { line } = await start(['--forward', url, '--types', 'told', '--verbose'])
    await client.publish({ type: 'told', payload: { n: 7 } })
    await line(/→ 200/)
    expect(await line(/> webhook-signature: v1,/)).toMatch(/^ {2}>/)
    await line(/> \{"type":"told",.*"data":\{"n":7\}\}$/)
    await line(/< x-answer: 200$/)
    expect(await line(/thanks/)).toBe('  <  [31mthanks')
  })

  test('only shows what comes if there is nowhere to forward it', async () => {
    const { line } = await start(['--types', 'shown,never'])
    const { id } = await client.publish({ type: 'shown', payload: { n: 1 } })
    expect(await line(/attempt 1/)).toMatch(new RegExp(` shown ${id} attempt 1 {"n":1}$`))
    await eventually('it is settled', async () => (await client.event(id)).status === 'COMPLETED')
  })

  test.each(['SIGTERM', 'SIGINT'] as const)('%s leaves no subscription behind', async (signal) => {
    const { pid, end } = await start(['--types', 'none'])
    expect(await subscribers()).toContain(`listen-${host}-${pid}`)
    expect(await end(signal)).toMatchObject({ code: 0, stderr: '' })
    expect(await subscribers()).not.toContain(`listen-${host}-${pid}`)
  })

  test('what it holds when it ends is handed back, and not charged with a failure', async () => {
    const held = createServer()
    receivers.push(held)
    const arrived = once(held, 'request')
    await once(held.listen(0, '127.0.0.1'), 'listening')
    const url = `http://127.0.0.1:${(held.address() as AddressInfo).port}/`
    const { end } = await start(['--forward', url, '--types', 'held'])
    const { id } = await client.publish({ type: 'held', payload: null })
    await arrived
    expect(await end('SIGTERM')).toMatchObject({ code: 0 })
    const { status, deliveries } = await client.event(id)
    // Upkeep cancels it in its own time; leased it would be PROCESSING.
    expect(['PENDING', 'CANCELLED']).toContain(status)
    expect(deliveries).toMatchObject([{ failures: 0, leasedUntil: null }])
  })

  test('the next one deletes what a kill left behind, and nothing of those that live', async () => {
    const [killed, living] = [await start(['--types', 'none']), await start(['--types', 'none'])]
    await killed.end('SIGKILL')
    const elsewhere = await client.subscribers.create({
      ...{ name: `listen-other-${host}-${killed.pid}`, via: 'pull', eventTypes: ['none'] },
    })
    expect(await subscribers()).toContain(`listen-${host}-${killed.pid}`)
    const { line } = await start(['--types', 'none'])
    await line(
      new RegExp(`deleted listen-${host}-${killed.pid}, which a process that is gone had left behind`),
    )
    const names = await subscribers()
    expect(names).not.toContain(`listen-${host}-${killed.pid}`)
    expect(names).toEqual(expect.arrayContaining([`listen-${host}-${living.pid}`, elsewhere.name]))
  })

  test('a type that cannot be is refused by the server, and nothing is left', async () => {
    const before = await subscribers()
    expect(await posthorn(['listen', '--types', 'a b'], { POSTHORN_URL: server.url })).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^BAD_FIELD: .*event_types.*\n$/),
    })
    expect(await subscribers()).toEqual(before)
  })

  test('a server that is not there is named', async () => {
    const { port, close } = await takePort()
    await close()
    expect(await posthorn(['listen'], { PORT: `${port}` })).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^UNREACHABLE: .*posthorn serve.*\n$/),
    })
  })
})
