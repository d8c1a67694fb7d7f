import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { readLeases } from '../../src/client/leases.ts'
import { readLeasedEvents } from '../../src/client/translate.ts'
import { leasedText } from './fake-hub.ts'

test('a payload is cut out as it stands, whatever it holds and however it is spaced', () => {
  const spaced = fc.tuple(fc.json(), fc.constantFrom(0, 1, 2)).map(([text, indent]) => {
    return JSON.stringify(JSON.parse(text), null, indent)
  })
  const payload = fc.oneof(
    spaced,
    fc.constantFrom('"\\\\"', '"\\""', '["]\\"}"]', '1e400', '{"a" : 1, "a":2}'),
  )
  fc.assert(
    fc.property(
      fc.array(payload, { minLength: 1, maxLength: 5 }),
      fc.constantFrom('', ' ', '\n\t'),
      (payloads, gap) => {
        const events = payloads.map((payload, i) => ({ id: i + 1, payload, orderingKey: `"k\\${i}` }))
        const text = `${gap}[${events.map((event) => `${gap}${leasedText(event, `t${event.id}`)}${gap}`).join(',')}]${gap}`
        const expected = events.map(({ id, payload, orderingKey }) => [id, payload, orderingKey, `t${id}`])
        expect(leasedOf(text)).toEqual(expected)
        const slowly = readLeasedEvents(text)
        expect(slowly.map((e) => [e.id, e.payloadText, e.orderingKey, e.leaseToken])).toEqual(expected)
      },
    ),
  )
})

test('fields that few events have are read, and those of one event do not stick to the next', () => {
  const rare =
    '"concurrency_key":"c","version":"2","source":{"type":"t","id":null,"name":"n"},"timestamp":"2026-01-01T00:00:00Z","attributes":{"x":1}'
  const full = leasedText({ id: 1, payload: '1', type: 'a"b' }, 't').replace(/}$/, `,${rare},"suspect":true}`)
  const bare =
    '{"id":2,"payload":2,"created_at":"2026-01-01T00:00:00Z","lease_token":"u","attempt":4,"retry_count":3}'
  const seen: unknown[] = []
  readLeases(`[${full},${bare}]`, ({ event, attempt, failures, suspect }) => {
    const { type, title, tags, version, source, timestamp, attributes } = event
    seen.push([type, title, tags, version, source, timestamp, attributes, attempt, failures, suspect])
  })
  expect(seen).toEqual([
    [
      ...['a"b', 'a title', ['a', 'b'], '2', { type: 't', id: null, name: 'n' }],
      ...[new Date('2026-01-01T00:00:00Z'), { x: 1 }, 1, 0, true],
    ],
    [null, null, null, null, null, null, null, 4, 3, false],
  ])
})

test.each(['', '[]', ' [ ] '])('no events in %j', (text) => {
  expect(leasedOf(text)).toEqual([])
})

test.each(['{', '[{"id":1]', '{"id":1}x', '{"id":}', '[{"id":1},]', '"text"', '{"id":"1', '{id:1}', '[1]'])(
  '%j is no list of events',
  (text) => {
    expect(() => leasedOf(text)).toThrow(/Not the JSON of events/)
  },
)

test('what a client needs runs without Node: its modules import nothing of it', () => {
  const seen = new Set<string>()
  const visit = (path: string) => {
    if (seen.has(path)) return
    seen.add(path)
    const text = readFileSync(path, 'utf8')
    expect(text, path).not.toMatch(/from 'node:|from '[a-z@]|\bBuffer\b|\bsetImmediate\b/)
    for (const [, names, target] of text.matchAll(
      /^(?:import|export) (?!type )([^'"]*?)from '(\.[^']+)'/gm,
    )) {
      if (!/^\{(\s*type [^,}]+,?)+\s*\}\s*$/.test(names as string)) visit(join(path, '..', target as string))
    }
  }
  visit(new URL('../../src/client/client.ts', import.meta.url).pathname)
  expect([...seen].map((path) => path.split('/src/')[1])).toContain('domain/json-members.ts')
  expect(seen.size).toBeGreaterThan(10)
})

function leasedOf(text: string): unknown[] {
  const leased: unknown[] = []
  readLeases(text, ({ event, leaseToken }) => {
    leased.push([event.id, event.payloadText, event.orderingKey, leaseToken])
  })
  return leased
}
