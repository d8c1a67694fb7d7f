import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { rareFields } from '../../../src/client/translate.ts'
import { storedEvent } from '../../../src/domain/stored-event.ts'
import { AddressPolicy } from '../../../src/webhooks/send/address-policy.ts'
import { decide, errorClasses, type Result } from '../../../src/webhooks/send/webhook-outcome.ts'
import { buildRequest } from '../../../src/webhooks/send/webhook-request.ts'

const page = readFileSync(new URL('../../../docs/reference/webhooks.md', import.meta.url), 'utf8')
const section = (title: string) => page.split(`\n## ${title}\n`)[1]?.split('\n## ')[0] ?? ''
const rowsOf = (title: string) =>
  [...section(title).matchAll(/^\| (.+) \|$/gm)]
    .slice(2)
    .map(([, row]) => (row as string).split('|').map((cell) => cell.trim()))
const codeIn = (text: string) => [...text.matchAll(/`([^`]+)`/g)].map(([, code]) => code as string)

test('every header that is sent is documented, and none is stale', () => {
  const core = { id: 1, type: 't', payloadText: '1', orderingKey: 'k', createdAtMs: 0 }
  const event = storedEvent(core, rareFields({ traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01` }))
  const sent = [false, true].flatMap((isLate) => {
    const lane = { orderingKey: 'k', epoch: 1, sequence: 5, delivered: 1, isLate }
    const { headers } = buildRequest({
      ...{ deliveryId: 'd', attempt: 1, format: 'standard', headers: {}, lane, replay: 'r' },
      ...{ event, secrets: [Buffer.alloc(24)], timestamp: 1, userAgent: 'u' },
    })
    return Object.keys(headers)
  })
  const documented = rowsOf('Headers').flatMap(([name = '']) => codeIn(name))
  expect(documented.sort()).toEqual([...new Set(sent)].sort())
})

describe('the table of outcomes is the one that decides', () => {
  const rows = rowsOf('Outcomes').map(([what = '', delivery = '', counted = '', endpoint = '']) => ({
    ...{ what, delivery, counted, endpoint },
  }))

  test.each([
    ...[200, 204, 299, 429, 500, 599, 410, 400, 404, 499, 301, 308].map(
      (status) => [String(status), { kind: 'answered', status, retryAfterMs: null }] as const,
    ),
    ...errorClasses.map((errorClass) => [errorClass, { kind: 'failed', errorClass, message: '' }] as const),
  ])('%s', (name, result: Result) => {
    const row =
      rows.find(({ what }) => codeIn(what).includes(name)) ?? rows.find(({ what }) => fits(what, name))
    const { outcome, endpoint } = decide(result)
    const told = { unreachable: 'cannot be reached', unknown: '', reached: 'reached', gone: 'gone' }
    expect(row?.endpoint.split(':')[0]).toBe(told[endpoint])
    expect(row?.delivery.split(',')[0]).toBe(endpoint === 'gone' ? 'held' : wordFor(outcome))
    const isCounted = outcome.kind === 'failed' && !outcome.uncounted
    if (row?.delivery !== 'delivered') expect(row?.counted).toBe(isCounted ? 'yes' : 'no')
  })

  /** The number itself counts before its class. */
  function fits(what: string, status: string): boolean {
    const named = rows.find((row) => new RegExp(`\\b${status}\\b`).test(row.what))
    return named === undefined ? what.includes(`${status[0]}xx`) : what === named.what
  }

  function wordFor(outcome: ReturnType<typeof decide>['outcome']): string {
    if (outcome.kind !== 'failed') return 'delivered'
    return outcome.permanent ? 'buried' : 'retried'
  }
})

describe('addresses', () => {
  const text = section('Addresses')
  const [refused = '', , shut = ''] = text.split(/^`POSTHORN_ALLOW_CIDRS=[^`]*`|stays shut/m)
  const addressOf = (code: string) => code.replace(/\/\d+$/, '').replace(/::$/, '::1')
  const cidrs = (part: string) =>
    codeIn(part).filter((code) => /^[\da-f:.]+(\/\d+)?$/.test(code) && /[:.]/.test(code.slice(1)))

  test.each(cidrs(refused).filter((cidr) => cidr !== '2000::/3'))('%s is refused', (cidr) => {
    expect(new AddressPolicy().judge(addressOf(cidr))).not.toBe('allowed')
  })

  test.each(cidrs(shut))('%s stays shut', (cidr) => {
    expect(new AddressPolicy(['0.0.0.0/0', '::/0']).judge(addressOf(cidr))).toBe('metadata')
  })

  test('both lists were read', () => {
    expect(cidrs(refused).length).toBeGreaterThan(18)
    expect(cidrs(shut)).toHaveLength(8)
  })
})
