import type { IncomingHttpHeaders } from 'node:http'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { PosthornError, sign, verify } from '../../../src/webhooks/index.ts'

/** The vector of the Standard Webhooks specification. */
const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
const body = '{"test": 2432232314}'
const sentSeconds = 1614265330
const vector = {
  'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
  'webhook-timestamp': String(sentSeconds),
  'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
}
const ed25519 = 'v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=='
const at = (seconds: number) => ({ now: () => seconds * 1000 })
const sent = at(sentSeconds)

function refusal(...args: Parameters<typeof verify>): string {
  try {
    verify(...args)
  } catch (error) {
    if (error instanceof PosthornError) return `${error.code} ${error.message}`
    throw error
  }
  return 'accepted'
}

describe('the vector of the specification', () => {
  test('is accepted, as text, as a Buffer and as other bytes', () => {
    for (const form of [body, Buffer.from(body), new TextEncoder().encode(body)]) {
      expect(verify(form, vector, secret, sent)).toEqual({
        id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
        timestamp: new Date('2021-02-25T15:02:10Z'),
        eventId: null,
        attempt: null,
        lane: null,
      })
    }
  })

  test('is what we sign', () => {
    expect(sign(body, { id: vector['webhook-id'], secrets: secret, ...sent })).toEqual(vector)
  })

  test('is accepted without the prefix of the secret', () => {
    expect(refusal(body, vector, secret.slice(6), sent)).toBe('accepted')
  })

  test('needs a signature whose tag we know; others are passed over', () => {
    const signatures = (text: string) => ({ ...vector, 'webhook-signature': text })
    const good = vector['webhook-signature']
    expect(refusal(body, signatures(`${ed25519} v2,abc ${good}`), secret, sent)).toBe('accepted')
    expect(refusal(body, signatures(`v1,AAAA ${good} v1,`), secret, sent)).toBe('accepted')
    for (const bad of [ed25519, good.replace('v1,', 'v2,'), good.slice(3), 'v1', 'v1,', ' ', `x${good}`]) {
      expect(refusal(body, signatures(bad), secret, sent)).toMatch(/^BAD_SIGNATURE/)
    }
  })
})

test('another spelling of the same base64 is another signature', () => {
  const good = vector['webhook-signature']
  for (const spelled of [good.replace('1OE=', '1OF='), good.replace('=', ''), good.replace('=', '!')]) {
    const headers = { ...vector, 'webhook-signature': spelled }
    expect(refusal(body, headers, secret, sent)).toContain('no signature matches')
  }
})

describe('headers', () => {
  test('are found in Headers, in plain objects, in any case, and as lists of one', () => {
    const shouted = Object.fromEntries(Object.entries(vector).map(([name, value]) => [title(name), value]))
    const listed = Object.fromEntries(Object.entries(vector).map(([name, value]) => [name, [value]]))
    const incoming: IncomingHttpHeaders = { host: 'localhost', 'set-cookie': ['a', 'b'], ...vector }
    for (const headers of [new Headers(vector), incoming, shouted, listed]) {
      expect(refusal(body, headers, secret, sent)).toBe('accepted')
    }
  })

  test.each(Object.keys(vector))('%s that is missing, empty or there twice is named', (name) => {
    const value = vector[name as keyof typeof vector]
    for (const wrong of [undefined, '', [], [value, value]]) {
      const message = refusal(body, { ...vector, [name]: wrong }, secret, sent)
      expect(message).toContain(`${name} is missing or occurs more than once`)
    }
    expect(refusal(body, { ...vector, [title(name)]: value }, secret, sent)).toContain('more than once')
  })

  test.each(['1614265330.5', ' 1614265330', '01614265330', '-1', '1e9', '0x60', 'now', '1'.repeat(13)])(
    'a timestamp of %j is no time',
    (timestamp) => {
      const message = refusal(body, { ...vector, 'webhook-timestamp': timestamp }, secret, sent)
      expect(message).toContain('webhook-timestamp is not in Unix seconds')
    },
  )

  test('the border between id, time and body cannot be moved', () => {
    const signed = sign('1614265330.x', { id: 'a', secrets: secret, now: () => 7000 })
    const moved = { ...signed, 'webhook-id': 'a.7', 'webhook-timestamp': '1614265330' }
    expect(refusal('x', moved, secret, sent)).toContain('webhook-id is not an id')
  })

  test.each(['a b', 'ä', 'a\n', 'a'.repeat(256)])('an id of %j is none', (id) => {
    expect(refusal(body, { ...vector, 'webhook-id': id }, secret, sent)).toContain('webhook-id is not an id')
  })
})

describe('time', () => {
  test.each([
    [0, undefined, 'accepted'],
    [300, undefined, 'accepted'],
    [-300, undefined, 'accepted'],
    [301, undefined, 'it was sent 301 s ago and 300 s are allowed'],
    [-301, undefined, 'it was sent 301 s from now and 300 s are allowed'],
    [10, 10, 'accepted'],
    [11, 10, 'it was sent 11 s ago and 10 s are allowed'],
    [0, 0, 'accepted'],
    [-1, 0, 'it was sent 1 s from now and 0 s are allowed'],
  ])('%i s later, with a tolerance of %s: %s', (later, toleranceSeconds, expected) => {
    const options = {
      ...at(sentSeconds + later),
      ...(toleranceSeconds === undefined ? {} : { toleranceSeconds }),
    }
    expect(refusal(body, vector, secret, options)).toContain(expected)
  })

  test('parts of a second do not count against the sender, who sends none', () => {
    expect(refusal(body, vector, secret, at(sentSeconds + 300.999))).toBe('accepted')
  })

  test('nobody without the secret is told how the clocks differ', () => {
    const message = refusal(`${body} `, vector, secret, at(sentSeconds + 9000))
    expect(message).toBe('BAD_SIGNATURE The signature of the webhook is not valid: no signature matches.')
  })

  test.each([Number.NaN, -1, Number.POSITIVE_INFINITY])(
    'a tolerance of %d is refused',
    (toleranceSeconds) => {
      expect(refusal(body, vector, secret, { toleranceSeconds })).toMatch(
        /^BAD_OPTION Expected toleranceSeconds/,
      )
    },
  )
})

describe('secrets', () => {
  const other = `whsec_${Buffer.alloc(24, 7).toString('base64')}`

  test('while they are rotated, either side may be ahead', () => {
    const both = sign(body, { id: 'a', secrets: [other, secret], ...sent })
    expect(refusal(body, both, secret, sent)).toBe('accepted')
    expect(refusal(body, both, other, sent)).toBe('accepted')
    expect(refusal(body, vector, [other, secret], sent)).toBe('accepted')
    expect(refusal(body, vector, other, sent)).toContain('no signature matches')
  })

  test.each([
    ['none', []],
    ['undefined', undefined],
    ['something else', 'whsec_tooshort'],
    ['something else', `${secret}!`],
    ['something else', ` ${secret}`],
    ['something else', 'correct horse battery staple'],
    ['something else', ''],
    ['something else', `whsec_${Buffer.alloc(129).toString('base64')}`],
  ])('%s is refused and not shown', (value, given) => {
    expect(refusal(body, vector, given as string, sent)).toBe(
      `BAD_OPTION Expected secrets to be whsec_ and base64 of 16 to 128 bytes, got ${value}.`,
    )
  })

  test('a body that was parsed already is a mistake of the receiver, and said to be one', () => {
    const parsed = JSON.parse(body)
    expect(refusal(parsed, vector, secret, sent)).toBe(
      'BAD_OPTION Expected body to be the bytes or the text as they came, got object.',
    )
  })
})

describe('whatever is sent', () => {
  const id = fc
    .string({
      unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)),
      minLength: 1,
    })
    .filter((text) => !text.includes('.'))
  const key = fc.uint8Array({ minLength: 16, maxLength: 64 }).map(whsec)
  const delivery = fc.record({
    body: fc.uint8Array({ minLength: 1, maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
    id,
    secrets: fc.uniqueArray(key, { minLength: 1, maxLength: 3 }),
    seconds: fc.nat(4_000_000_000),
  })
  const anyAge = { toleranceSeconds: 1e12 }

  test('what is signed is verified, by any of the secrets', () => {
    fc.assert(
      fc.property(delivery, fc.nat(), ({ body, id, secrets, seconds }, pick) => {
        const headers = sign(body, { id, secrets, ...at(seconds) })
        const verified = verify(body, headers, secrets[pick % secrets.length] as string, at(seconds))
        expect([verified.id, verified.timestamp.getTime()]).toEqual([id, seconds * 1000])
      }),
    )
  })

  test('what is changed by one byte anywhere is refused', () => {
    const change = fc.record({
      part: fc.constantFrom('body' as const, 'webhook-id', 'webhook-timestamp', 'webhook-signature'),
      place: fc.nat(),
      by: fc.integer({ min: 1, max: 255 }),
    })
    fc.assert(
      fc.property(delivery, change, ({ body, id, secrets, seconds }, { part, place, by }) => {
        const [secret] = secrets as [string]
        const headers = sign(body, { id, secrets: secret, ...at(seconds) })
        const [changedBody, changedHeaders] =
          part === 'body'
            ? [changeByte(body, place, by), headers]
            : [
                body,
                { ...headers, [part]: changeByte(Buffer.from(headers[part]), place, by).toString('latin1') },
              ]
        const options = { ...at(seconds), ...anyAge }
        expect(refusal(changedBody, changedHeaders, secret, options)).toMatch(/^BAD_SIGNATURE/)
      }),
      { numRuns: 2000 },
    )
  })

  test('what is cut, lengthened or signed with another secret is refused', () => {
    fc.assert(
      fc.property(delivery, key, ({ body, id, secrets, seconds }, other) => {
        fc.pre(!secrets.includes(other))
        const headers = sign(body, { id, secrets, ...at(seconds) })
        const options = at(seconds)
        expect(refusal(body, headers, other, options)).toContain('no signature matches')
        expect(refusal(body.subarray(1), headers, secrets, options)).toContain('no signature matches')
        expect(refusal(Buffer.concat([body, body]), headers, secrets, options)).toContain(
          'no signature matches',
        )
      }),
    )
  })

  test('no header makes it fail otherwise than with BAD_SIGNATURE', () => {
    const anything = fc.option(fc.string({ unit: 'binary' }), { nil: undefined })
    const headers = fc.record({
      'webhook-id': anything,
      'webhook-timestamp': anything,
      'webhook-signature': anything,
    })
    fc.assert(
      fc.property(headers, (given) => {
        expect(refusal(body, given, secret, sent)).toMatch(/^BAD_SIGNATURE/)
      }),
    )
  })
})

function whsec(bytes: Uint8Array): string {
  return `whsec_${Buffer.from(bytes).toString('base64')}`
}

function changeByte(value: Buffer, place: number, by: number): Buffer {
  const bytes = Buffer.from(value)
  const index = place % bytes.length
  bytes[index] = ((bytes[index] as number) + by) % 256
  return bytes
}

/** `webhook-id` as `Webhook-Id`. */
function title(name: string): string {
  return name.replace(/(^|-)[a-z]/g, (start) => start.toUpperCase())
}
