import { expect, test } from 'vitest'
import { refuseOwnAddress } from '../../src/http/own-address.ts'
import { type TestServer, useServers } from '../support/http.ts'
import { openDispatching } from '../webhooks/send/setup.ts'

const servers = useServers('webhook_refused')

const loopback = [
  ...[
    'http://127.0.0.1/',
    'http://127.1/',
    'http://127.0.0.1:8080/',
    'http://2130706433/',
    'http://0177.0.0.1/',
  ],
  ...['http://0x7f.0.0.1/', 'http://0x7f000001/', 'http://017700000001/', 'http://127.255.255.254/'],
  ...[
    'http://[::1]/',
    'http://[::ffff:127.0.0.1]/',
    'http://[::ffff:7f00:1]/',
    'http://[0:0:0:0:0:ffff:7f00:1]/',
  ],
  ...[
    'http://[::127.0.0.1]/',
    'http://[64:ff9b::7f00:1]/',
    'http://[2002:7f00:1::]/',
    'http://0.0.0.0/',
    'http://0/',
  ],
  ...[
    'http://[::]/',
    'http://localhost/',
    'http://LOCALHOST./',
    'http://a.localhost/',
    'http://１２７.0.0.1/',
  ],
  ...['http://①②⑦.0.0.1/', 'http://127。0。0。1/', 'http://localhost%2e/', 'http://%6cocalhost/'],
]
const metadata = [
  ...['http://169.254.169.254/', 'http://2852039166/', 'http://0xa9fea9fe/', 'http://0251.0376.0251.0376/'],
  ...['http://[::ffff:169.254.169.254]/', 'http://[::ffff:a9fe:a9fe]/', 'http://[fd00:ec2::254]/'],
  ...[
    'http://[fe80::1]/',
    'http://100.100.100.200/',
    'http://168.63.129.16/',
    'http://metadata.google.internal/',
  ],
  ...['http://metadata.google.internal./', 'http://[64:ff9b::a9fe:a9fe]/'],
]
const inside = [
  ...[
    'http://10.0.0.1/',
    'http://172.16.0.1/',
    'http://192.168.1.1/',
    'http://100.64.0.1/',
    'http://[fc00::1]/',
  ],
  ...[
    'http://224.0.0.1/',
    'http://255.255.255.255/',
    'http://db/',
    'http://db.internal/',
    'http://printer.local/',
  ],
]
const malformed = [
  ...[
    '',
    'billing',
    'billing.example',
    '//billing.example/',
    'http://',
    'http:///',
    'https://?',
    'http://a b/',
  ],
  ...['ftp://billing.example/', 'file:///etc/passwd', 'gopher://billing.example/', 'javascript:alert(1)'],
  ...[
    'data:text/plain,a',
    'ws://billing.example/',
    'unix:/var/run/docker.sock',
    'http://user@billing.example/',
  ],
  ...[
    'https://user:pass@billing.example/',
    'http://127.0.0.1@billing.example/',
    'https://billing.example/#a',
  ],
  ...['https://billing.example:0/', 'https://billing.example:99999/', 'https://[::1', 'http://1.2.3.4.5.6/'],
  `https://billing.example/${'a'.repeat(2_048)}`,
]

test('no spelling of an address inside is taken, nor what is no address', async () => {
  const server = await openDispatching(servers, { hub: { allowCidrs: [] } })
  const taken: string[] = []
  for (const url of [...loopback, ...metadata, ...inside, ...malformed]) {
    const answer = await create(server, { url })
    if (answer.status !== 422 || !/url/.test(answer.json.detail)) taken.push(`${answer.status} ${url}`)
  }
  expect(taken).toEqual([])
  expect(await webhooks(server)).toEqual([])
})

test('metadata stays shut whatever is allowed, and a change is held to the same', async () => {
  const server = await openDispatching(servers, { hub: { allowCidrs: ['0.0.0.0/0', '::/0'] } })
  const { json } = await create(server, { url: 'http://10.0.0.1/' })
  const taken: string[] = []
  for (const url of metadata) {
    const created = await create(server, { url })
    const changed = await server.call('PATCH', `/subscribers/${json.id}`, { url })
    if (created.status !== 422 || changed.status !== 422) taken.push(url)
  }
  expect(taken).toEqual([])
  expect((await server.call('GET', `/subscribers/${json.id}`)).json.url).toBe('http://10.0.0.1/')
})

test('the door of the hub itself is refused, by whatever name it is called', async () => {
  const server = await openDispatching(servers)
  const { port } = new URL(server.url)
  const { json } = await create(server, { url: 'http://127.0.0.1:1/' })
  const hosts = ['127.0.0.1', 'localhost', 'LOCALHOST', 'localhost.', 'hub.localhost', '2130706433', '0x7f.1']
  for (const host of hosts) {
    const url = `http://${host}:${port}/events`
    expect((await create(server, { url })).status, url).toBe(422)
    expect((await server.call('PATCH', `/subscribers/${json.id}`, { url })).status, url).toBe(422)
  }
  expect((await create(server, { url: 'http://127.0.0.1:2/events' })).status).toBe(201)
})

test('the name that a caller has for the hub leads to its own door, with and without a port', () => {
  const socket = { localAddress: '::ffff:10.1.2.3', localPort: 8080 }
  const from = (host: string) => ({ headers: { host }, socket })
  const refused: [host: string, url: string][] = [
    ['hub.example', 'https://hub.example/events'],
    ['hub.example', 'http://HUB.example/events'],
    ['hub.example:8443', 'https://hub.example:8443/'],
    ['hub.example:443', 'https://hub.example/'],
    ['[::1]:8080', 'http://[::1]:8080/'],
    ['hub.example', 'http://10.1.2.3:8080/'],
    ['hub.example', 'http://[::ffff:127.0.0.1]:8080/'],
  ]
  for (const [host, url] of refused) {
    expect(() => refuseOwnAddress(url, from(host)), url).toThrow('the address of another server')
  }
  const others: [host: string, url: string][] = [
    ['hub.example', 'https://hub.example:8443/'],
    ['hub.example:8443', 'https://hub.example/'],
    ['hub.example', 'https://other.example/'],
    ['hub.example', 'http://127.0.0.1:8081/'],
    ['hub.example', 'http://10.1.2.4:8080/'],
    ['not a host', 'https://hub.example/'],
  ]
  for (const [host, url] of others) expect(() => refuseOwnAddress(url, from(host)), url).not.toThrow()
})

test('headers that frame, sign or break a request are refused', async () => {
  const server = await openDispatching(servers)
  const names = [
    ...[
      'Host',
      'connection',
      'Keep-Alive',
      'upgrade',
      'TE',
      'trailer',
      'Transfer-Encoding',
      'content-length',
    ],
    ...[
      'Content-Type',
      'content-encoding',
      'expect',
      'accept-encoding',
      'proxy-authorization',
      'Proxy-Connection',
    ],
    ...[
      'webhook-id',
      'Webhook-Signature',
      'webhook-timestamp',
      'posthorn-event-id',
      'Posthorn-Attempt',
      'ce-id',
    ],
    ...['traceparent', 'a b', 'a:b', 'a\nb', 'a\r\nx-evil: 1', 'ä', '', 'x'.repeat(101)],
  ]
  const values = [
    'a\r\nx-evil: 1',
    'a\nb',
    'a\rb',
    '\u0000',
    'a\u007f',
    '€',
    'x'.repeat(4_097),
    7,
    null,
    ['a'],
  ]
  const taken: unknown[] = []
  for (const headers of [
    ...names.map((name) => ({ [name]: 'a' })),
    ...values.map((value) => ({ 'x-a': value })),
  ]) {
    const answer = await create(server, { headers })
    if (answer.status !== 422 || !/headers/.test(answer.text)) taken.push({ status: answer.status, headers })
  }
  expect(taken).toEqual([])
  const plain = '{"url":"https://billing.example/","event_types":["a"],"headers":{"__proto__":"a"}}'
  expect((await server.call('POST', '/subscribers', plain)).status).toBeLessThan(500)
  const twice = await create(server, { headers: { 'X-A': '1', 'x-a': '2' } })
  expect(twice.status).toBe(422)
  const many = Object.fromEntries(Array.from({ length: 51 }, (_, n) => [`x-${n}`, 'a']))
  expect((await create(server, { headers: many })).status).toBe(422)
})

test('numbers out of range and unknown words are refused by name', async () => {
  const server = await openDispatching(servers)
  const fields: [string, unknown[]][] = [
    ['timeout_ms', [0, 99, 120_001, 1.5, -1, '1000', null]],
    ['retry_backoff_seconds', [[-1], ['5'], [2_592_001], Array(101).fill(1), 5]],
    ['max_concurrency', [0, -1, 1.5, 100_001, '10']],
    ['rate_per_second', [0, -1, '50', 1e9]],
    ['on_exhausted', ['stop', null, true]],
    ['format', ['xml', null, 'STANDARD']],
    ['outcomes', [{ '404': 'ignore' }, { '4x': 'retry' }, { '99': 'retry' }, { '600': 'retry' }, 'retry']],
    ['ordering_key', ['payload/a', 'invoice', 7]],
    ['event_types', [[''], ['a b'], 'invoice.*', [7], null]],
    ['is_active', ['yes', 1, null]],
    ['colour', ['red']],
  ]
  const taken: unknown[] = []
  for (const [field, values] of fields) {
    for (const value of values) {
      const answer = await create(server, { [field]: value })
      if (answer.status !== 422 || !answer.text.includes(field))
        taken.push({ [field]: value, answer: answer.text })
    }
  }
  expect(taken).toEqual([])
  expect(await webhooks(server)).toEqual([])
})

function create(server: TestServer, more: object) {
  const webhook = { url: 'https://billing.example/hooks', event_types: ['invoice.*'] }
  return server.call('POST', '/subscribers', { ...webhook, ...more })
}

async function webhooks(server: TestServer): Promise<string[]> {
  const { json } = await server.call('GET', '/subscribers?limit=1000')
  const found = json.subscribers as { via: string; url: string }[]
  return found.filter(({ via }) => via === 'webhook').map(({ url }) => url)
}
