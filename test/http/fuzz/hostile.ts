import { manyKeys, nested } from './hints.ts'

interface HostileBody {
  readonly what: string
  readonly body: string | Buffer
  /** `stored`: accepted, and given back byte for byte. */
  readonly expected: 'stored' | number
  readonly headers?: Readonly<Record<string, string>>
}

/** Payloads that a careless hub would change, choke on or be changed by. */
export const hostilePayloads: readonly HostileBody[] = [
  { what: 'a payload of 1 MB', payload: text(1_048_576), expected: 'stored' as const },
  { what: 'a payload of 1 MB and a byte', payload: text(1_048_577), expected: 413 },
  { what: '1 MB of [', payload: '['.repeat(1_048_000), expected: 400 },
  { what: '64 deep', payload: nested(64), expected: 'stored' as const },
  { what: '65 deep', payload: nested(65), expected: 400 },
  { what: '60,000 keys', payload: manyKeys(60_000), expected: 'stored' as const },
  { what: 'duplicate keys', payload: '{"a":1,"a":2,"\\u0061":3}', expected: 'stored' as const },
  {
    what: '__proto__',
    payload: '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}',
    expected: 'stored' as const,
  },
  { what: '1e400', payload: '[1e400,-1e400,1e-400,0.1e1]', expected: 'stored' as const },
  {
    what: 'whole numbers of 30 digits',
    payload: '123456789012345678901234567890',
    expected: 'stored' as const,
  },
  { what: 'an escaped NUL', payload: '"a\\u0000b"', expected: 'stored' as const },
  { what: 'an escaped lone surrogate', payload: '"\\ud800 \\udfff"', expected: 'stored' as const },
  { what: 'whitespace inside', payload: '{ "b" :\r\n\t[ 1 , 2 ] }', expected: 'stored' as const },
  { what: 'NaN', payload: 'NaN', expected: 400 },
  { what: 'a raw NUL', payload: '"a\0b"', expected: 400 },
  { what: 'a control character', payload: '"a\x01b"', expected: 400 },
  { what: 'a trailing comma', payload: '[1,]', expected: 400 },
  { what: 'a comment', payload: '/* */1', expected: 400 },
  { what: 'a number with a leading zero', payload: '01', expected: 400 },
].map(({ what, payload, expected }) => ({ what, body: `{"type":"hostile","payload":${payload}}`, expected }))

/** Bodies that are wrong as a whole. */
export const hostileBodies: readonly HostileBody[] = [
  { what: 'nothing', body: '', expected: 400 },
  { what: 'spaces', body: ' \n ', expected: 400 },
  { what: '2 MB', body: `{"type":"hostile","payload":1,"title":"${'x'.repeat(2_000_000)}"}`, expected: 413 },
  { what: '1 MB of [ and nothing else', body: '['.repeat(1_000_000), expected: 400 },
  { what: 'an object in an object, 100,000 times', body: '{"a":'.repeat(100_000), expected: 400 },
  { what: '60,000 members', body: manyKeys(60_000), expected: 400 },
  { what: 'a name twice', body: '{"type":"a","type":"a","payload":1}', expected: 422 },
  { what: 'a name twice, once escaped', body: '{"type":"a","payload":1,"\\u0070ayload":2}', expected: 422 },
  { what: '__proto__', body: '{"type":"a","payload":1,"__proto__":{"polluted":1}}', expected: 422 },
  {
    what: 'invalid UTF-8',
    body: Buffer.concat([Buffer.from('{"type":"a","payload":"'), Buffer.from([0xff]), Buffer.from('"}')]),
    expected: 400,
  },
  {
    what: 'a lone surrogate as bytes',
    body: Buffer.concat([
      Buffer.from('{"type":"a","payload":"'),
      Buffer.from([0xed, 0xa0, 0x80]),
      Buffer.from('"}'),
    ]),
    expected: 400,
  },
  { what: 'a byte order mark', body: '\ufeff{"type":"a","payload":1}', expected: 400 },
  { what: 'UTF-16', body: Buffer.from('{"type":"a","payload":1}', 'utf16le'), expected: 400 },
  { what: 'NaN', body: 'NaN', expected: 400 },
  { what: 'null', body: 'null', expected: 400 },
  {
    what: 'what says that it is gzip',
    body: '{"type":"a","payload":1}',
    expected: 415,
    headers: { 'Content-Encoding': 'gzip' },
  },
  { what: 'a type with NUL', body: '{"type":"a\\u0000","payload":1}', expected: 422 },
  {
    what: 'a title with a lone surrogate',
    body: '{"type":"a","title":"\\ud800","payload":1}',
    expected: 422,
  },
]

function text(bytes: number): string {
  return `"${'x'.repeat(bytes - 2)}"`
}

/** Requests that are no HTTP, or not quite. Each is sent as it is and answered at least once, with an error or not. */
export function brokenRequests(
  host: string,
): readonly (readonly [what: string, text: string, isCutOff?: true])[] {
  const get = (target: string, lines = '') =>
    `GET ${target} HTTP/1.1\r\nHost: ${host}\r\n${lines}Connection: close\r\n\r\n`
  const header = (line: string) => get('/livez', `${line}\r\n`)
  const post = (lines: string, body: string) =>
    `POST /events HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\n${lines}Connection: close\r\n\r\n${body}`
  const body = '{"type":"a","payload":1}'
  return [
    ...[...'\0\x01\x0b\x1f\x7f'].map(
      (char) =>
        [`character ${char.charCodeAt(0)} in a header`, header(`Idempotency-Key: a${char}b`)] as const,
    ),
    ['CR in a header', header('X-Request-Id: a\rb')],
    ['LF in a header', header('X-Request-Id: a\nb')],
    ['CR LF in a header', header('X-Request-Id: a\r\nX-Injected: 1')],
    ['CR LF CR LF in a header', header(`X-Request-Id: a\r\n\r\nGET /healthz HTTP/1.1\r\nHost: ${host}`)],
    ['a folded header', header('X-A: a\r\n b')],
    ['a space before the colon', header('X-A : a')],
    ['a header without a name', header(': a')],
    ['a header without a colon', header('nothing')],
    ['NUL in the name of a header', header('X\0A: a')],
    ['UTF-8 in the name of a header', header('X-\xc3\xa9: a')],
    ['UTF-8 in a header', header('Idempotency-Key: \xc3\xa9\xff')],
    ['no Host', 'GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n'],
    ['two Hosts', header('Host: evil.example')],
    [
      'Content-Length and Transfer-Encoding',
      post('Content-Length: 5\r\nTransfer-Encoding: chunked\r\n', '0\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n'),
    ],
    ['two lengths', post('Content-Length: 5\r\nContent-Length: 6\r\n', body)],
    ...['-1', '+5', '1e3', '5 5', '0x5', '99999999999999999999', '', 'a'].map(
      (length) => [`a length of ${length}`, post(`Content-Length: ${length}\r\n`, body)] as const,
    ),
    ['a length that is too long', post('Content-Length: 100\r\n', body), true],
    ['a length that is too short', post('Content-Length: 5\r\n', body)],
    ['an unknown transfer encoding', post('Transfer-Encoding: xchunked\r\n', body)],
    ['a chunk of no size', post('Transfer-Encoding: chunked\r\n', 'zz\r\nabc\r\n0\r\n\r\n')],
    ['a chunk that is cut off', post('Transfer-Encoding: chunked\r\n', 'ff\r\nabc'), true],
    [
      'a chunk with an extension of 20 KB',
      post('Transfer-Encoding: chunked\r\n', `5;${'x'.repeat(20_000)}\r\nabcde\r\n0\r\n\r\n`),
    ],
    ['a trailer', post('Transfer-Encoding: chunked\r\n', `18\r\n${body}\r\n0\r\nX-A: b\r\n\r\n`)],
    ...[...'\0\t \x0b\x7f'].map(
      (char) => [`character ${char.charCodeAt(0)} in the path`, get(`/liv${char}ez`)] as const,
    ),
    ['CR in the path', get('/livez\r')],
    ['UTF-8 in the path', get('/events/\xc3\xa9')],
    ['a path of 8 KB', get(`/${'a'.repeat(8_000)}`)],
    ['a query of 15 KB', get(`/events?tags=${'a'.repeat(15_000)}`)],
    ['a path of 20 KB', get(`/${'a'.repeat(20_000)}`)],
    ['a header of 20 KB', header(`X-A: ${'a'.repeat(20_000)}`)],
    ['1,900 headers', get('/livez', 'a:\r\n'.repeat(1_900))],
    ['a name and a password in the target', get(`http://user:secret@${host}/livez`)],
    ['a foreign target', get('http://evil.example/livez')],
    ['a target of another kind', get('livez')],
    ['an expectation', header('Expect: 200-ok')],
    ['an upgrade', header('Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQ')],
    ['CONNECT', `CONNECT evil.example:22 HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`],
    ['an unknown method', `FOO /livez HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`],
    ['a small method', `get /livez HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`],
    ['HTTP/0.9', 'GET /livez\r\n\r\n'],
    ['HTTP/1.0', 'GET /livez HTTP/1.0\r\n\r\n'],
    ['HTTP/1.2', `GET /livez HTTP/1.2\r\nHost: ${host}\r\n\r\n`],
    ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['a TLS greeting', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
    ['half a head', `GET /livez HTTP/1.1\r\nHost: ${host}\r\n`, true],
    ['two requests at once', get('/livez').replace('Connection: close\r\n', '') + get('/healthz')],
  ]
}
