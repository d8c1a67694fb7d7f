import { once } from 'node:events'
import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http'
import { json } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { type TestServer, useServers } from '../support/http.ts'

/** Whatever body is sent, it is either stored or refused with what is wrong with it; nothing breaks. */

const servers = useServers('publish_bodies')
const megabyte = 1_048_576
const bodyBytesMax = megabyte + 65_536
const event = (payload: string) => `{"type":"a","payload":${payload}}`
const bytes = (...parts: (string | number[])[]) =>
  Buffer.concat(parts.map((part) => Buffer.from(part as string)))
const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`

const refused: [what: string, body: string | Buffer, status: number, code: string, says: string][] = [
  ['nothing', '', 400, 'bad_json', 'not an object'],
  ['only space', ' \n', 400, 'bad_json', 'not an object'],
  ['a byte order mark', bytes([0xef, 0xbb, 0xbf], event('1')), 400, 'bad_json', 'byte order mark'],
  ['UTF-16', Buffer.from(event('1'), 'utf16le'), 400, 'bad_json', 'JSON'],
  ['a byte that is no UTF-8', bytes('{"type":"a","payload":"', [0xff], '"}'), 400, 'bad_json', 'UTF-8'],
  ['an overlong encoding', bytes('{"type":"a","payload":"', [0xc0, 0x80], '"}'), 400, 'bad_json', 'UTF-8'],
  ['a raw surrogate', bytes('{"type":"a","payload":"', [0xed, 0xa0, 0x80], '"}'), 400, 'bad_json', 'UTF-8'],
  ['half a letter', bytes('{"type":"a","payload":"', [0xe2, 0x82], '"}'), 400, 'bad_json', 'UTF-8'],
  ['NaN', event('NaN'), 400, 'bad_payload', 'not JSON'],
  ['Infinity', event('-Infinity'), 400, 'bad_payload', 'not JSON'],
  ['a comment', event('1 /* one */'), 400, 'bad_json', 'comma'],
  ['single quotes', `{'type':'a'}`, 400, 'bad_json', 'name'],
  ['a comma at the end', '{"type":"a","payload":1,}', 400, 'bad_json', 'name'],
  ['a missing value', '{"type":"a","payload":}', 400, 'bad_json', 'value'],
  ['a leading zero', event('01'), 400, 'bad_payload', 'not JSON'],
  ['a raw newline in a text', event('"a\nb"'), 400, 'bad_payload', 'not JSON'],
  ['a raw NUL in a text', event('"a\0b"'), 400, 'bad_payload', 'not JSON'],
  ['a raw NUL in a field', '{"type":"a\0","payload":1}', 400, 'bad_json', 'type'],
  ['a bad escape', event('"\\x41"'), 400, 'bad_payload', 'not JSON'],
  ['brackets that do not fit', event('[}'), 400, 'bad_payload', 'not JSON'],
  ['brackets that fit in number only', event('[1}'), 400, 'bad_payload', 'not JSON'],
  ['a text without an end', event('"a'), 400, 'bad_json', 'text'],
  ['an event that goes on', `${event('1')}${event('2')}`, 400, 'bad_json', 'after its end'],
  ['an array', `[${event('1')}]`, 400, 'bad_json', 'not an object'],
  ['a text', '"a"', 400, 'bad_json', 'not an object'],
  ['nesting one too deep', event(nested(65)), 400, 'bad_payload', '64 deep'],
  ['nesting of objects', event(`${'{"a":'.repeat(65)}1${'}'.repeat(65)}`), 400, 'bad_payload', '64 deep'],
  ['a megabyte of brackets', '['.repeat(megabyte), 400, 'bad_json', 'not an object'],
  ['a payload of a megabyte of brackets', event('['.repeat(megabyte - 50)), 400, 'bad_json', 'early'],
  ['the same, closed again', event(nested(megabyte / 2)), 400, 'bad_payload', '64 deep'],
  [
    'a field of half a million brackets',
    `{"title":${nested(250_000)},"payload":1}`,
    422,
    'bad_event',
    'title',
  ],
  [
    'a hundred thousand fields',
    `{${Array.from({ length: 100_000 }, (_, n) => `"f${n}":1`)}}`,
    400,
    'bad_json',
    'members',
  ],
  ['one field twice', '{"type":"a","payload":1,"type":"a"}', 422, 'bad_event', 'type'],
  ['two payloads', '{"type":"a","payload":1,"payl\\u006fad":2}', 422, 'bad_event', 'payload'],
  ['no payload', '{"type":"a"}', 422, 'bad_event', 'payload'],
  [
    'a payload one byte too long',
    event(`"${'x'.repeat(megabyte - 1)}"`),
    413,
    'payload_too_large',
    'send a URI',
  ],
  [
    'a payload too long in bytes, not in letters',
    event(`"${'é'.repeat(megabyte / 2)}"`),
    413,
    'payload_too_large',
    'URI',
  ],
  ['a body too long', ' '.repeat(bodyBytesMax + 1), 413, 'body_too_large', String(bodyBytesMax)],
]

test('a body that cannot be read, or is none of an event, is refused with what is wrong with it', async () => {
  const server = await servers.open()
  for (const [what, body, status, code, says] of refused) {
    const answer = await server.call('POST', '/events', body)
    expect(answer, what).toMatchObject({ status, json: { code, status } })
    expect(answer.headers.get('content-type'), what).toMatch(/^application\/problem\+json/)
    expect(answer.json.error, what).toContain(says)
    expect(answer.text.length, what).toBeLessThan(2_000)
  }
  expect((await server.hub.listEvents()).total).toBe(0)
})

const jsonType = 'application/json'
const unsupported: [what: string, headers: Record<string, string>, body: string | Buffer][] = [
  ['gzip', { 'content-type': jsonType, 'content-encoding': 'gzip' }, gzipSync(event('1'))],
  ['what says it is compressed', { 'content-type': jsonType, 'content-encoding': 'br' }, event('1')],
  ['two codings', { 'content-type': jsonType, 'content-encoding': 'identity, gzip' }, event('1')],
  ['plain text', { 'content-type': 'text/plain' }, event('1')],
  ['a form with files', { 'content-type': 'multipart/form-data; boundary=x' }, event('1')],
  ['JSON in another charset', { 'content-type': 'application/json; charset=utf-16' }, event('1')],
  ['XML', { 'content-type': 'application/xml' }, '<a/>'],
  ['a content type that is none', { 'content-type': 'garbage' }, event('1')],
]

test('a body of another kind is refused by its headers', async () => {
  const server = await servers.open()
  for (const [what, headers, body] of unsupported) {
    for (const path of ['/events', '/events/batch', '/events/1/complete', '/subscribers']) {
      const answer = await server.call('POST', path, body, headers)
      expect(answer, `${what} to ${path}`).toMatchObject({
        status: 415,
        json: { code: 'unsupported_media_type' },
      })
    }
  }
  expect((await server.hub.listEvents()).total).toBe(0)
})

test('JSON is JSON by whatever name, or none', async () => {
  const server = await servers.open()
  for (const type of [
    jsonType,
    `${jsonType}; charset=utf-8`,
    `${jsonType};charset="UTF-8"`,
    'Application/JSON',
    'application/vnd.x+json',
    undefined,
  ]) {
    const headers = { ...(type !== undefined && { 'content-type': type }), 'content-encoding': 'identity' }
    const answer = await send(server, { headers, body: event('1') })
    expect(answer.statusCode, type).toBe(202)
  }
})

test('a body over the limit is refused while it streams, and the connection goes on', async () => {
  const server = await servers.open()
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const upload = start(server, { agent, headers: { 'content-type': 'application/json' } })
  upload.write(Buffer.alloc(bodyBytesMax + 1, 32))
  // It is not ended: nobody waits for the rest.
  const answer = await answerTo(upload)
  expect(answer.statusCode).toBe(413)
  expect(answer.headers.connection).not.toBe('close')
  expect(await json(answer)).toMatchObject({ code: 'body_too_large', bytes_max: bodyBytesMax })
  upload.end(event('1'))
  const next = await send(server, { agent, body: event('2') })
  expect(next.statusCode).toBe(202)
  expect((await server.hub.listEvents()).total).toBe(1)
  agent.destroy()
})

test('a body that says it is too long is refused before it comes', async () => {
  const server = await servers.open()
  const upload = start(server, { headers: { 'content-length': String(bodyBytesMax + 1) } })
  upload.flushHeaders()
  expect((await answerTo(upload)).statusCode).toBe(413)
  upload.destroy()
  const batch = start(server, { path: '/events/batch', headers: { 'content-length': String(33 * megabyte) } })
  batch.flushHeaders()
  expect((await answerTo(batch)).statusCode).toBe(413)
  batch.destroy()
})

test('who sends far too much gets the answer, and not a broken connection', async () => {
  const server = await servers.open()
  const answers = Array.from({ length: 10 }, () =>
    server.call('POST', '/events', Buffer.alloc(8 * megabyte, 32)),
  )
  for (const { status } of await Promise.all(answers)) expect(status).toBe(413)
})

test('a body that breaks off is stored neither in part nor at all, and breaks nothing', async () => {
  const server = await servers.open()
  const upload = start(server, { headers: { 'content-length': '1000' } })
  upload.on('error', () => undefined)
  upload.write(event('1'))
  await once(upload, 'socket')
  upload.destroy()
  expect(await server.call('POST', '/events', event('2'))).toMatchObject({ status: 202 })
  expect((await server.hub.listEvents()).total).toBe(1)
})

test('a batch of a megabyte of nothing much is refused without being taken apart', async () => {
  const server = await servers.open()
  const many = `[${'1,'.repeat(2_000_000)}1]`
  expect(await server.call('POST', '/events/batch', many)).toMatchObject({
    status: 422,
    json: { field: 'events', value: 'more than 1000' },
  })
  const type = { 'content-type': 'application/cloudevents-batch+json' }
  const cloudEvent = '{"specversion":"1.0","id":"1","source":"/s","type":"a"}'
  const answer = await server.call(
    'POST',
    '/events',
    `[${`${cloudEvent},`.repeat(1_000)}${cloudEvent}]`,
    type,
  )
  expect(answer).toMatchObject({ status: 422, json: { field: 'events', value: 'more than 1000' } })
})

interface Sending {
  readonly path?: string
  readonly agent?: Agent
  readonly headers?: Record<string, string>
}

function start({ url }: TestServer, { path = '/events', agent, headers = {} }: Sending): ClientRequest {
  return request(url + path, { method: 'POST', headers, ...(agent !== undefined && { agent }) })
}

async function answerTo(upload: ClientRequest): Promise<IncomingMessage> {
  const [answer] = await once(upload, 'response')
  return answer
}

async function send(server: TestServer, { body, ...sending }: Sending & { body: string }) {
  const upload = start(server, sending)
  upload.end(body)
  const answer = await answerTo(upload)
  await json(answer)
  return answer
}
