import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { verify } from '../../src/webhooks/index.ts'
import { type TestServer, useServers } from '../support/http.ts'
import {
  type Delivered,
  openDispatching,
  openInbox,
  publish,
  secretKey,
  settledTimes,
  subscribe,
} from '../webhooks/send/setup.ts'

const servers = useServers('webhook_secrets')

const newKey = () => randomBytes(32).toString('base64')
const newSecret = () => `whsec_${randomBytes(24).toString('base64')}`

test('a secret is shown once, and stands nowhere in the clear', async () => {
  const server = await openDispatching(servers)
  const inbox = await openInbox()
  const own = newSecret()
  const { id, secret: made } = await subscribe(server, inbox.url)
  const second = await subscribe(server, inbox.url, { secret: own })
  expect(second.secret).toBe(own)
  const rotated = newSecret()
  const answer = await server.call('POST', `/subscribers/${id}/rotate-secret`, { secret: rotated })
  expect(answer.json).toEqual({ id, secret: rotated })
  await server.call('POST', `/subscribers/${id}/test`)
  await publish(server)
  await inbox.count(3)
  await server.drain()

  const told = await Promise.all([
    server.call('GET', '/subscribers'),
    server.call('GET', `/subscribers/${id}`),
    server.call('PATCH', `/subscribers/${id}`, { timeout_ms: 5_000 }),
    server.call('POST', `/subscribers/${id}/pause`),
  ])
  const stored = await everythingStored(server)
  expect(stored).toContain('subscriber.rotate_secret')
  for (const secret of [made, own, rotated]) {
    const bare = secret.slice('whsec_'.length)
    for (const { text } of told) expect(text).not.toContain(bare)
    expect(stored).not.toContain(bare)
  }
})

test('a secret of another form is refused, and not repeated in the answer', async () => {
  const server = await openDispatching(servers)
  const { id } = await subscribe(server, 'https://billing.example/')
  const others = [
    'whsec_short',
    'secret_MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0',
    `whsec_${'A'.repeat(400)}`,
    'whsec_!?',
  ]
  for (const secret of others) {
    const webhook = { url: 'https://billing.example/', event_types: ['a'], secret }
    for (const answer of [
      await server.call('POST', '/subscribers', webhook),
      await server.call('POST', `/subscribers/${id}/rotate-secret`, { secret }),
    ]) {
      expect(answer.status, secret).toBe(422)
      expect(answer.text).toContain('secret')
      expect(answer.text).not.toContain(secret.slice(secret.indexOf('_') + 1))
    }
  }
})

test('while secrets overlap both sign, and afterwards only the new one does', async () => {
  const server = await openDispatching(servers)
  const inbox = await openInbox()
  // Paused meanwhile: the process that sends hears of both changes together.
  const { id, secret: old } = await subscribe(server, inbox.url, { is_active: false })
  await publish(server)
  const rotation = { overlap_seconds: 3_600 }
  const { secret } = (await server.call('POST', `/subscribers/${id}/rotate-secret`, rotation)).json
  await server.call('POST', `/subscribers/${id}/resume`)
  const [during] = (await inbox.count(1)) as [Delivered]
  expect([isSigned(during, old), isSigned(during, secret)]).toEqual([true, true])
  await server.drain()
  await server.clock.advance(3_600_001)
  await publish(server)
  const [, after] = (await inbox.count(2)) as [Delivered, Delivered]
  expect([isSigned(after, old), isSigned(after, secret)]).toEqual([false, true])
})

test('a rotation without an overlap ends all secrets before it, also those of an earlier overlap', async () => {
  const server = await openDispatching(servers)
  const inbox = await openInbox()
  const { id, secret: first } = await subscribe(server, inbox.url, { is_active: false })
  await publish(server)
  const rotate = async (seconds: number) =>
    (await server.call('POST', `/subscribers/${id}/rotate-secret`, { overlap_seconds: seconds })).json.secret
  const secrets = [first, await rotate(86_400), await rotate(0)]
  await server.call('POST', `/subscribers/${id}/resume`)
  const [delivered] = (await inbox.count(1)) as [Delivered]
  expect(secrets.map((secret) => isSigned(delivered, secret))).toEqual([false, false, true])
})

test('however often a secret is rotated, the newest five sign', async () => {
  const server = await openDispatching(servers)
  const inbox = await openInbox()
  const { id, secret: first } = await subscribe(server, inbox.url, { is_active: false })
  await publish(server)
  const secrets = [first]
  for (let n = 0; n < 6; n++) {
    secrets.push((await server.call('POST', `/subscribers/${id}/rotate-secret`)).json.secret)
  }
  await server.call('POST', `/subscribers/${id}/resume`)
  const [delivered] = (await inbox.count(1)) as [Delivered]
  expect(secrets.map((secret) => isSigned(delivered, secret))).toEqual([false, false, ...Array(5).fill(true)])
})

test('without a key for secrets no webhook is made, and everything else works', async () => {
  const server = await servers.open()
  const webhook = { url: 'https://billing.example/', event_types: ['a'] }
  const answer = await server.call('POST', '/subscribers', webhook)
  expect(answer.status).toBe(409)
  expect(answer.json).toMatchObject({ error: expect.stringContaining('POSTHORN_SECRET_KEY') })
  expect(answer.text).toContain('secret_key_missing')
  expect((await server.call('GET', '/subscribers')).text).not.toContain('billing.example')
  const pull = { via: 'pull', name: 'p', event_types: ['a'] }
  expect((await server.call('POST', '/subscribers', pull)).status).toBe(201)
})

test('nothing begins with a key that opens no secret', async () => {
  const schema = 'wrong_key'
  const server = await openDispatching(servers, { hub: { schema } })
  await subscribe(server, 'https://billing.example/')
  const wrong = openDispatching(servers, { hub: { schema, secretKey: newKey() } })
  await expect(wrong).rejects.toMatchObject({ code: 'SECRET_KEY_WRONG' })
})

test('the secret of a deleted subscriber keeps nobody from starting', async () => {
  const schema = 'lost_key'
  const server = await openDispatching(servers, { hub: { schema } })
  const { id } = await subscribe(server, 'https://billing.example/')
  await server.call('DELETE', `/subscribers/${id}`)
  const later = await openDispatching(servers, { hub: { schema, secretKey: newKey() } })
  expect((await later.call('GET', '/readyz')).status).toBe(200)
})

test('with two keys secrets are sealed anew with the first, and then the second can go', async () => {
  const schema = 'two_keys'
  const inbox = await openInbox()
  const first = await openDispatching(servers, { hub: { schema, dispatcher: false } })
  const { secret } = await subscribe(first, inbox.url)
  const sealed = async () => (await first.db.query(`select sealed from ${schema}.endpoint_secrets`)).rows
  const before = await sealed()
  const next = newKey()
  const options = { schema, dispatcher: true }
  const both = await openDispatching(servers, { hub: { ...options, secretKey: `${next},${secretKey}` } })
  expect(await sealed()).not.toEqual(before)
  await both.hub.stop()
  const alone = await openDispatching(servers, { hub: { ...options, secretKey: next } })
  await publish(alone)
  const [delivered] = (await inbox.count(1)) as [Delivered]
  expect(isSigned(delivered, secret)).toBe(true)
})

test('a secret that cannot be opened holds back its own subscriber only, and costs nothing', async () => {
  const server = await openDispatching(servers)
  const [broken, whole] = [await openInbox(), await openInbox()]
  const { id } = await subscribe(server, broken.url, { is_active: false })
  await subscribe(server, whole.url)
  await server.db.query(
    `update ${server.db.schema}.endpoint_secrets x set id = gen_random_uuid(), sealed = 'v1.0.AAAA'
    from ${server.db.schema}.subscriptions s where s.no = x.subscription and s.id = $1`,
    [id],
  )
  await server.call('POST', `/subscribers/${id}/resume`)
  const event = await publish(server)
  await whole.count(1)
  const settled = await settledTimes(server, event, 1)
  expect(settled).toMatchObject([{ settlement: 'completed' }])
  expect(broken.all).toEqual([])
  const tested = await server.call('POST', `/subscribers/${id}/test`)
  expect(tested.status).toBe(409)
  expect(tested.text).toContain('secret_key_wrong')
})

function isSigned({ body, headers }: Delivered, secret: string): boolean {
  try {
    // The clock of the test may be ahead: only the signature is asked for.
    const nowMs = Number(headers['webhook-timestamp']) * 1_000
    verify(body, headers as Record<string, string>, secret, { now: () => nowMs })
    return true
  } catch (error) {
    if ((error as { code?: string }).code === undefined) throw error
    return false
  }
}

/** All rows of the tables that could hold a secret, as text. */
async function everythingStored(server: TestServer): Promise<string> {
  const tables = [
    'admin_log',
    'endpoints',
    'endpoint_secrets',
    'subscriptions',
    'exchanges',
    'events',
    'audit',
  ]
  const texts = tables.map(async (table) => {
    const { rows } = await server.db.query(
      `select to_json(t)::text as row from ${server.db.schema}.${table} t`,
    )
    return rows.map(({ row }) => row).join('\n')
  })
  return (await Promise.all(texts)).join('\n')
}
