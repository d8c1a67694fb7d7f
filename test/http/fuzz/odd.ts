import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import type { Parameter } from '../../../src/http/docs/document.ts'
import { isOpen, type Plan } from './plan.ts'
import { nastyText, words } from './texts.ts'
import { Slot, someIn, type Tree, write } from './tree.ts'

interface QueryChance {
  readonly place: number
  readonly text: string
  readonly way: number
  readonly odd: string
}

/** One parameter has an odd value, comes twice, is missing, or there is one that nobody knows. */
export function withOddQuery(
  plan: Plan,
  named: readonly Parameter[],
  { place, text, way, odd }: QueryChance,
): Plan {
  const parameter = named[place % Math.max(1, named.length)]
  const name = parameter === undefined || isOpen(parameter) ? 'payload.a' : parameter.name
  const others = plan.query.filter(([other]) => other !== name)
  const { minimum = 0, maximum = 100, maxLength = 100 } = parameter?.schema ?? {}
  const long = 'a'.repeat(maxLength + 1)
  const values: Tree[] = [text.slice(0, 6_000), minimum - 1, maximum + 1, '', '0', long, 1.5]
  switch (way % 4) {
    case 0:
      return { ...plan, query: [...others, [name, values[(way >> 2) % values.length] as Tree]] }
    case 1:
      return { ...plan, query: [...plan.query, [name, values[0] as Tree], [name, 'again']], isPlain: false }
    case 2:
      return { ...plan, query: others }
    default:
      return { ...plan, more: `&${odd}`, isPlain: false }
  }
}

export const oddQueries = [
  ...words('&&& = =1 extra=1 __proto__=1 __proto__[a]=1 constructor=1 toString limit limit[]=1 a;b #x'),
  ...words('limit=% limit=%zz limit=%ff tags=%00 tags=%ed%a0%80 type=%c0%80 ordering_key=\xff\xfe tags=+a+'),
  ...words('payload.a=1 payload.=1 payload.a.b=%00 payload.%00=1 payload.__proto__.x=1 payload.a%27--=1'),
  ...words('created_from=2020-01-01T00:00:00Z&payload.a=1 format=x wait=61 wait=-1 offset=10001'),
  ...words(
    'created_from=0000-01-01T00:00:00Z created_to=9999-12-31T23:59:59-12:00 created_to=0001-01-01T00:00:00Z',
  ),
  ...words('created_from=%2B275760-09-13T00:00:00Z cursor=YXNjOjE cursor=YXNjOjE&order=desc cursor=%00'),
  ...[
    `payload.${'a.'.repeat(1_000)}=1`,
    `cursor=${'A'.repeat(200)}`,
    `x=${'y'.repeat(8_000)}`,
    `x=${'y'.repeat(14_000)}`,
  ],
  Array.from({ length: 1_500 }, (_, n) => `p${n}=`).join('&'),
]

type Change = (plan: Plan) => Plan

/** Something about the request is odd that no schema speaks of. */
export const oddity: fc.Arbitrary<Change> = fc.oneof(
  fc.constantFrom(...words('HEAD OPTIONS PUT TRACE DELETE PATCH GET POST PROPFIND M-SEARCH')).map(
    (method): Change =>
      (plan) => ({ ...plan, method, isPlain: false }),
  ),
  fc.constantFrom(...oddTypes()).map(
    (contentType): Change =>
      (plan) => ({ ...plan, contentType, body: plan.body ?? {}, isPlain: false }),
  ),
  fc.constantFrom(...oddHeaders()).map(
    (header): Change =>
      (plan) => ({ ...plan, headers: [...plan.headers, header], isPlain: false }),
  ),
  fc.tuple(fc.nat(), fc.nat(200)).map(
    ([way, at]): Change =>
      (plan) => ({ ...plan, body: mangled(plan, way, at), isPlain: false }),
  ),
  fc
    .tuple(
      nastyText,
      fc.constantFrom(...words('Idempotency-Key X-Request-Id traceparent Authorization Accept ce-id')),
    )
    .map(
      ([text, name]): Change =>
        (plan) => ({ ...plan, headers: [...plan.headers, [name, headerText(text)]], isPlain: false }),
    ),
)

function oddTypes(): (string | null)[] {
  return [
    null,
    '',
    'application/json; charset=utf-8',
    'multipart/form-data; boundary=x',
    'application/json, text/plain',
    `application/${'x'.repeat(2_000)}`,
    ...words('text/plain application/json;charset=latin1 APPLICATION/JSON application/x-www-form-urlencoded'),
    ...words('application/jsonx a / a/ ; application/cloudevents+json application/cloudevents-batch+json'),
    ...words('application/xml application/vnd.a+json application/problem+json \xff/\xfe'),
  ]
}

function oddHeaders(): [string, string][] {
  return [
    ...words('gzip br identity x').map((coding): [string, string] => ['Content-Encoding', coding]),
    ['Expect', 'something else'],
    ['Upgrade', 'websocket'],
    ['Host', 'hub.example'],
    ['Host', '127.0.0.1@evil.example'],
    ['Host', 'localhost'],
    ['Host', ''],
    ['Origin', 'https://evil.example'],
    ['Origin', 'null'],
    ['Sec-Fetch-Site', 'cross-site'],
    ['X-Forwarded-For', '8.8.8.8'],
    ['X-HTTP-Method-Override', 'DELETE'],
    ['Accept', 'application/cloudevents+json'],
    ['Accept', '*/*;q=0'],
    ['Connection', 'close'],
    ['Range', 'bytes=0-1'],
    ['If-None-Match', '*'],
    ['Cookie', 'a=b'],
    ['ce-specversion', '1.0'],
    ['ce-type', 'order.created'],
    ['x-long', 'x'.repeat(10_000)],
  ]
}

function mangled({ body }: Plan, way: number, at: number): Buffer {
  const isOpen = body === undefined || Buffer.isBuffer(body) || someIn(body, (one) => one instanceof Slot)
  const text = isOpen ? '{"type":"a","payload":{"b":[1,2]}}' : write(body as Tree)
  const bytes = Buffer.from(text)
  const place = at % bytes.length
  const [before, after] = [bytes.subarray(0, place), bytes.subarray(place)]
  const forms = [
    () => before,
    () => Buffer.concat([Buffer.from('\ufeff'), bytes]),
    () => Buffer.concat([before, Buffer.from([0xc3, 0x28, 0xff]), after]),
    () => Buffer.concat([bytes, Buffer.from('}')]),
    () => Buffer.concat([bytes, bytes]),
    () => Buffer.concat([before, Buffer.from('\0'), after]),
    () => Buffer.from(text, 'utf16le'),
    () => gzipSync(bytes),
    () => Buffer.alloc(0),
    () => Buffer.from(' \n\t'),
    () => Buffer.from(text.replaceAll('"', "'")),
  ]
  return (forms[way % forms.length] as () => Buffer)()
}

/** What a header may carry: no line breaks and no NUL, which have a table of their own. */
export function headerText(text: string): string {
  const bytes = Buffer.from(text.slice(0, 3_000)).filter((byte) => byte === 9 || (byte >= 32 && byte !== 127))
  return Buffer.from(bytes).toString('latin1')
}
