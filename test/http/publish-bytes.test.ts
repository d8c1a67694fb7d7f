import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { type TestServer, useServers } from '../support/http.ts'

/** A payload comes back as the bytes it was, whichever way it went in and whichever way it comes out. */

const servers = useServers('publish_bytes')
const payloadBytesMax = 1_048_576
const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`

const payloads: Record<string, string> = {
  'whitespace inside': '{ "a" :\t1 ,\r\n  "b" : [ 1 , 2 ]\n}',
  'the order of keys': '{"z":1,"a":2,"10":3,"9":4,"":5}',
  'duplicate keys': '{"a":1,"a":2,"a":{"b":1,"b":2}}',
  'twenty-digit integers': '[12345678901234567890,-98765432109876543210,9007199254740993]',
  'numbers that are too large or too fine':
    '[1e400,-1e400,1e-400,0.1000000000000000055511151231257827,1E+2,-0]',
  'escaped NUL': '{"\\u0000":"a\\u0000b"}',
  'lone surrogates, escaped': '["\\ud800","\\udc00\\ud800","\\uD83D\\uDE00"]',
  'the same text in two spellings': '["\\u00e9","é","\\/","/","\\u0041"]',
  'composed and decomposed letters': '["é","é","Å"]',
  'all kinds of unicode': '"😀 𝔘 \u2028\u2029 \ufeff \u202e עברית \u007f"',
  'names of prototypes': '{"__proto__":{"admin":true},"constructor":{"prototype":{}},"toString":1}',
  'text that looks like our own fields': '{"payload":1,"ordering_key":"x","data":2,"lease_token":"y"}',
  'text that looks like JSON': '"{\\"a\\":1}\\\\\\""',
  null: 'null',
  false: 'false',
  'an empty text': '""',
  'an empty object': '{}',
  'nesting as deep as allowed': nested(64),
  'a hundred thousand keys': `{${Array.from({ length: 100_000 }, (_, n) => `"${n}":0`).join(',')}}`,
  'one megabyte to the byte': `"${'x'.repeat(payloadBytesMax - 2)}"`,
  'one megabyte of two-byte letters': `"${'é'.repeat((payloadBytesMax - 2) / 2)}"`,
}

const hash = (bytes: string | Buffer) => createHash('sha256').update(bytes).digest('hex')
const body = (payload: string) => Buffer.from(`{"type":"a.b","title":"t","tags":"x","payload":${payload}}`)

/** The exact bytes of an answer, and the part of it that is the payload. */
async function bytesOf({ url }: TestServer, path: string, headers: Record<string, string> = {}) {
  const response = await fetch(url + path, { headers })
  expect(response.status).toBe(200)
  return Buffer.from(await response.arrayBuffer())
}

function payloadIn(answer: Buffer): Buffer {
  const start = answer.indexOf('"payload":') + '"payload":'.length
  return answer.subarray(start, answer.lastIndexOf(',"ordering_key":'))
}

function dataIn(answer: Buffer): Buffer {
  return answer.subarray(answer.indexOf(',"data":') + ',"data":'.length, -1)
}

const all = Object.entries(payloads)
const asCloudEvent = { accept: 'application/cloudevents+json' }

test('a payload comes back as it was from the publish, from reading it, and as the data of a CloudEvent', async () => {
  const server = await servers.open()
  for (const [what, payload] of all) {
    const published = await server.call('POST', '/events', body(payload))
    expect(published.status, what).toBe(201)
    const { id } = published.json
    const ways = [
      payloadIn(Buffer.from(published.text)),
      payloadIn(await bytesOf(server, `/events/${id}`)),
      payloadIn(await bytesOf(server, `/events/${id}?include_logs=true`)),
      dataIn(await bytesOf(server, `/events/${id}`, asCloudEvent)),
    ]
    expect(ways.map(hash), what).toEqual(ways.map(() => hash(payload)))
  }
})

test('a worker gets the payload as it was, in either form', async () => {
  const server = await servers.open()
  const subscribe = '/events/subscribe?tags=x&worker_id=w'
  for (const [what, payload] of all) {
    const { json } = await server.call('POST', '/events', body(payload))
    expect(hash(payloadIn(await bytesOf(server, subscribe))), what).toBe(hash(payload))
    await server.call('POST', `/events/${json.id}/release`, { worker_id: 'w' })
    expect(hash(dataIn(await bytesOf(server, subscribe, asCloudEvent))), what).toBe(hash(payload))
    await server.call('POST', `/events/${json.id}/complete`, { worker_id: 'w' })
  }
})

test('a batch keeps the payload of each of its events', async () => {
  const server = await servers.open()
  const batch = `\n[ ${all.map(([, payload]) => body(payload)).join(' ,\t')} ]\n`
  const { status, json } = await server.call('POST', '/events/batch', batch)
  expect(status).toBe(201)
  for (const [place, [what, payload]] of all.entries()) {
    const { id } = json.events[place]
    expect(hash(payloadIn(await bytesOf(server, `/events/${id}`))), what).toBe(hash(payload))
  }
})

test('a CloudEvent keeps its data, structured or binary', async () => {
  const server = await servers.open()
  for (const [place, [what, payload]] of all.entries()) {
    const text = `{"specversion":"1.0","id":"${place}","source":"/s","type":"a.b","data" : ${payload} }`
    const type = { 'content-type': 'application/cloudevents+json' }
    const structured = await server.call('POST', '/events', text, type)
    expect(structured.status, what).toBe(202)
    const attributes = { 'ce-specversion': '1.0', 'ce-id': `b${place}`, 'ce-source': '/s', 'ce-type': 'a.b' }
    const binary = await server.call('POST', '/events', payload, attributes)
    expect(binary.status, what).toBe(202)
    for (const { json } of [structured, binary]) {
      expect(hash(payloadIn(await bytesOf(server, `/events/${json.id}`))), what).toBe(hash(payload))
      const data = dataIn(await bytesOf(server, `/events/${json.id}`, asCloudEvent))
      expect(hash(data), what).toBe(hash(payload))
    }
  }
})

test('space around a payload is not part of it', async () => {
  const server = await servers.open()
  const { text } = await server.call('POST', '/events', '{"type":"a" , "payload" :\r\n\t {"a": 1} \n}')
  expect(payloadIn(Buffer.from(text)).toString()).toBe('{"a": 1}')
})

test('a handler in this process gets the same text', async () => {
  const server = await servers.open()
  await server.hub.subscribe('a.b', { name: 'mine' })
  for (const [what, payload] of all) {
    await server.call('POST', '/events', Buffer.from(`{"type":"a.b","payload":${payload}}`))
    const event = await server.hub.poll({ subscription: 'mine' })
    expect(hash(event?.payloadText ?? ''), what).toBe(hash(payload))
    await server.hub.finalize(event?.id as number)
  }
})

test('no payload changes what objects have by nature', async () => {
  const server = await servers.open()
  await server.call('POST', '/events', '{"type":"a","payload":{"__proto__":{"admin":true}}}')
  await server.call('POST', '/events', '{"type":"a","payload":1,"__proto__":{"admin":true}}')
  await server.call('POST', '/events', '{"type":"a","payload":1,"attributes":{"__proto__":"x"}}')
  await server.call('POST', '/events', '{"type":"a","payload":1,"source":{"__proto__":{"type":"x"}}}')
  expect(({} as { admin?: boolean }).admin).toBeUndefined()
  expect(Object.keys(Object.prototype)).toEqual([])
})
