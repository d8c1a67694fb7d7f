import { expect, test } from 'vitest'
import { useServers } from '../support/http.ts'
import { openDispatching } from '../webhooks/send/setup.ts'

/** A refused request says which of its fields is wrong, as deep as it goes, and what it has there. */

const servers = useServers('named_fields')
const object = 'a value of type object'

/** What is given, what of it is wrong, and what stands there. */
type Wrong = [given: unknown, field: string, value: unknown]
type Refusal = [method: string, path: string, ...Wrong]

const conditions: Wrong[] = [
  [{ prefix: '' }, '.prefix', ''],
  [{ prefix: null }, '.prefix', null],
  [{ prefix: 1 }, '.prefix', 1],
  [{ exists: null }, '.exists', null],
  [{ exists: '' }, '.exists', ''],
  [{ gt: null }, '.gt', null],
  [{ gt: '' }, '.gt', ''],
  [{ gte: 3, lt: '5' }, '.lt', '5'],
  [{ like: null }, '.like', null],
  [{}, '', object],
  [[], '', 'an array of 0'],
  [[[]], '[0]', 'an array of 0'],
  [['a', {}], '[1]', object],
]
const filters: Wrong[] = [
  ...conditions.map(([condition, member, value]): Wrong => {
    return [{ '/type': 'a', '/payload/a': condition }, `filter./payload/a${member}`, value]
  }),
  ['', 'filter', ''],
  [[], 'filter', 'an array of 0'],
  [{}, 'filter', object],
  [{ '': 1 }, 'filter', ''],
  [{ a: 1 }, 'filter.a', 'a'],
]

const fields: Wrong[] = [
  ...filters.map(([filter, field, value]): Wrong => [{ filter }, field, value]),
  [{ headers: null }, 'headers', null],
  [{ headers: '' }, 'headers', ''],
  [{ headers: { '': 'v' } }, 'headers', ''],
  [{ headers: { 'x-a': 7 } }, 'headers.x-a', 'something else'],
  [{ public_headers: null }, 'public_headers', null],
  [{ public_headers: [null] }, 'public_headers[0]', null],
  [{ public_headers: ['a', ''] }, 'public_headers[1]', ''],
  [{ outcomes: null }, 'outcomes', null],
  [{ outcomes: [] }, 'outcomes', 'an array of 0'],
  [{ outcomes: { 404: null } }, 'outcomes.404', null],
  [{ outcomes: { 404: '' } }, 'outcomes.404', ''],
  [{ outcomes: { '': 'retry' } }, 'outcomes', ''],
  [{ outcomes: { '9xx': 'retry' } }, 'outcomes.9xx', '9xx'],
  [{ event_types: null }, 'event_types', null],
  [{ event_types: ['a', ''] }, 'event_types[1]', ''],
  [{ event_types: [null] }, 'event_types[0]', null],
  [{ tags: {} }, 'tags', object],
  [{ tags: ['a', null] }, 'tags[1]', null],
  [{ tags: [''] }, 'tags[0]', ''],
  [{ retry_backoff_seconds: '' }, 'retry_backoff_seconds', ''],
  [{ retry_backoff_seconds: [null] }, 'retry_backoff_seconds[0]', null],
  [{ url: '' }, 'url', ''],
  [{ url: null }, 'url', null],
  [{ name: '' }, 'name', ''],
  [{ format: null }, 'format', null],
  [{ ordering_key: '' }, 'ordering_key', ''],
  [{ timeout_ms: null }, 'timeout_ms', null],
]

test('a subscriber with a null, an empty text or a wrong condition is refused by that field and its value', async () => {
  const { call } = await openDispatching(servers)
  const whole = { url: 'http://127.0.0.1:1/', event_types: ['a'] }
  const { id } = (await call('POST', '/subscribers', whole)).json
  const path = `/subscribers/${id}`
  const refusals: Refusal[] = [
    ...fields.map(
      ([given, ...rest]): Refusal => ['POST', '/subscribers', { ...whole, ...(given as object) }, ...rest],
    ),
    ...fields.map((wrong): Refusal => ['PATCH', path, ...wrong]),
    ...filters.map(([filter, ...rest]): Refusal => ['POST', `${path}/replay`, { filter }, ...rest]),
    ['POST', '/subscribers', { ...whole, headers: { 'x-a': null } }, 'headers.x-a', null],
    ['POST', '/subscribers', { ...whole, secret: null }, 'secret', null],
    ['POST', `${path}/rotate-secret`, { secret: '' }, 'secret', ''],
    ['POST', '/events/cancel', { tags: null }, 'tags', null],
  ]
  for (const [method, where, body, field, value] of refusals) {
    const { status, json } = await call(method, where, body)
    const what = `${method} ${where} ${JSON.stringify(body)}: ${json.detail}`
    expect({ status, field: json.field, value: json.value }, what).toEqual({ status: 422, field, value })
    expect(json.detail, what).toContain(`got ${value === '' ? '""' : value}.`)
    expect(json.detail).not.toMatch(/Invalid|record|another form/)
  }
})
