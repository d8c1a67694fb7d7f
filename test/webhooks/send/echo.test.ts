import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { hideInNames, hideTexts, secretTexts } from '../../../src/webhooks/send/echo.ts'

/** What is kept of a receiver's answer holds nothing of the values that nobody is shown. */

const textsOf = (...values: string[]) =>
  secretTexts(
    'https://a.example/',
    Object.fromEntries(values.map((value, n) => [`x-${n}`, value])),
    new Set(values.map((_, n) => `x-${n}`)),
  )

const hex = (char: string, digits: number) => char.charCodeAt(0).toString(16).padStart(digits, '0')
const percent = (char: string) => {
  const bytes = [...Buffer.from(char)]
  return bytes.map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('')
}

/** Each is a way to write one character. */
const escapes: ((char: string) => string)[] = [
  (char) => char,
  percent,
  (char) => percent(char).toUpperCase(),
  (char) => (char === ' ' ? '+' : percent(char)),
  (char) => `&#${char.charCodeAt(0)};`,
  (char) => `&#0${char.charCodeAt(0)};`,
  (char) => `&#x${hex(char, 2)};`,
  (char) => `&#X${hex(char, 4).toUpperCase()};`,
  (char) => JSON.stringify(char).slice(1, -1),
  (char) => `\\u${hex(char, 4)}`,
  (char) =>
    ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&apos;', '/': '\\/' })[char] ?? char,
]

const madeOf = (chars: string) =>
  fc
    .array(fc.constantFrom(...chars), { minLength: 6, maxLength: 40 })
    .map((all) => all.join('').trim())
    .filter((text) => text.length >= 4)
const plain = `abcABC019 /"'<>;#=x25uä`
const way = fc.constantFrom(...escapes)

/** A value, and the same as a receiver may write it: escaped twice, or once and looking like an escape itself. */
const escaped = fc.oneof(
  fc.record({ value: madeOf(plain), ways: fc.tuple(way, way) }),
  fc.record({
    value: madeOf(`${plain}%&+\\`),
    ways: fc.tuple(fc.constantFrom(percent, ...escapes.slice(4, 8))),
  }),
)
const write = (text: string, ways: readonly ((char: string) => string)[]) =>
  ways.reduce((written, way) => Array.from(written, way).join(''), text)

test('a value is hidden, however it was escaped, and what stands around it is not', () => {
  fc.assert(
    fc.property(escaped, ({ value, ways }) => {
      const written = write(value, ways)
      expect(hideTexts(`(${written})`, textsOf(value)), written).toBe('([hidden])')
      expect(hideTexts(`(${written}|${written})`, textsOf(value)), written).toBe('([hidden]|[hidden])')
    }),
    { numRuns: 2_000 },
  )
})

test('nothing of a value is shown that the cut went through, wherever after its first character the cut is', () => {
  fc.assert(
    fc.property(escaped, fc.double({ min: 0, max: 1, noNaN: true }), ({ value, ways }, share) => {
      const written = write(value, ways)
      const first = write(value.slice(0, 1), ways).length
      const kept = written.slice(0, first + Math.floor(share * (written.length - first)))
      expect(hideTexts(`((${kept}`, textsOf(value), 'cut'), `${kept} of ${written}`).toBe('(([hidden]')
    }),
    { numRuns: 5_000 },
  )
})

describe('an answer', () => {
  test.each([
    ['abcab', 'abcabcab', '[hidden]'],
    ['aaaa', 'aaaaaa', '[hidden]'],
    ['Bearer opensesame', 'Bearer opensesame, opensesame', '[hidden], [hidden]'],
    ['opensesame', 'open sesame OPENSESAME opensesam', 'open sesame OPENSESAME opensesam'],
    ['opensesame', 'opensesameopensesame', '[hidden][hidden]'],
    ['abc', 'abc', 'abc'],
    ['a%2Fb+c', 'a%2Fb+c a%2fb%20c a/b c', '[hidden] [hidden] [hidden]'],
    ['pässwort', 'p%C3%A4sswort p%E4sswort pässwort', '[hidden] [hidden] [hidden]'],
    ['pässwort', Buffer.from('is pässwort', 'latin1').toString(), 'is [hidden]'],
    ['pässwort', Buffer.from('is pässwort').toString('latin1'), 'is [hidden]'],
    ['opensesame', '', ''],
    ['\topensesame\t', 'You sent: opensesame !', 'You sent: [hidden] !'],
    ['opensesame ', '<opensesame>', '<[hidden]>'],
    ['Bearer  opensesame', 'opensesame', '[hidden]'],
    ['CORP\\bobby7Zq+x9Kw', 'CORP\\\\\\\\bobby7Zq+x9Kw', '[hidden]'],
    ['Zq%2B7x%41+Kx9w', 'Zq&amp;#37;2B7x&amp;#37;41&amp;#43;Kx9w', '[hidden]'],
  ])('with %j in %j is shown as %j', (secret, answer, shown) => {
    expect(hideTexts(answer, textsOf(secret))).toBe(shown)
  })

  test.each([
    ['&abcdef', '-&abc', '-[hidden]'],
    ['%2fabc', '-%2fa', '-[hidden]'],
    ['opensesame', '-open\\u007', '-[hidden]'],
    ['pässwort', '-p\ufffd', '-[hidden]'],
    ['opens"sesame', '-opens\\\\', '-[hidden]'],
    ['opens"sesame', '-opens\\\\\\', '-[hidden]'],
    ['opensesame', '-opens\\\\u00', '-[hidden]'],
    ['opensesame', '-opensesame-open', '-[hidden]-[hidden]'],
    ['opensesame', '-opensesame-', '-[hidden]-'],
    ['opensesame', 'o', '[hidden]'],
    ['opensesame', '', ''],
  ])('with %j that is cut after %j is shown as %j', (secret, answer, shown) => {
    expect(hideTexts(answer, textsOf(secret), 'cut')).toBe(shown)
  })

  test('that repeats one cookie of several does not show it', () => {
    const texts = secretTexts(
      'https://a.example/',
      { cookie: 'sid=opensesame; theme=dark' },
      new Set(['cookie']),
    )
    expect(hideTexts('hello opensesame', texts)).toBe('hello [hidden]')
  })

  test('that has a value in the name of a header does not show it', () => {
    const headers = { 'x-opensesame': '1', 'content-type': 'text/plain' }
    expect(hideInNames(headers, textsOf('OpenSesame'))).toEqual({
      'x-[hidden]': '1',
      'content-type': 'text/plain',
    })
  })

  test('that is whole keeps its end, also if a value begins so', () => {
    expect(hideTexts('{"ok":true} open', textsOf('opensesame'))).toBe('{"ok":true} open')
  })
})

test('no answer makes it slow, whatever the values are', () => {
  const half = 'a'.repeat(2_047)
  const values = Array.from({ length: 50 }, (_, n) => `${half}${n}b${half}`.slice(0, 4_096))
  const texts = textsOf(...values)
  const answers = [half.repeat(8), `${half}%62`.repeat(8), 'a%2561'.repeat(2_700), '&amp;'.repeat(3_276)]
  const before = process.cpuUsage()
  for (const answer of answers) hideTexts(answer, texts, 'cut')
  const { user, system } = process.cpuUsage(before)
  // By a search that starts anew at each place it takes ten times as long.
  expect((user + system) / 1_000).toBeLessThan(1_500)
})
