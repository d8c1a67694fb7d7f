import fc from 'fast-check'

/** A list without quotes and commas. */
export function words(text: string): string[] {
  return text.split(' ')
}

/** What has broken parsers, databases, paths, terminals and pages elsewhere. */
const nastyTexts: readonly string[] = [
  ...words(
    '\t \0 a\0b \ud800 \udfff\ud800 a\udc00 \u202eabc \ufeff \uffff 😀 e\u0301 \u{10ffff} İ ß ٣ \u2028 \u0085 \x7f \x1b[2J',
  ),
  ...[
    "'; drop table events; --",
    "' or '1'='1",
    "\\'; select 1; --",
    'a\r\n\r\nGET / HTTP/1.1',
    '\r\nx-injected: 1',
    '\n',
  ],
  ...['', ' ', '1 ', ' 1', ' a , b ', '<script>alert(1)</script>', 'x'.repeat(256), 'x'.repeat(101)],
  ...words(
    '$1 $$ %s%n \\ \\\\ % _ %% * a.* .* *.a a..b . .. ../../../etc/passwd ..\\..\\ %00 %2e%2e%2f %ff %zz + & = # ? ; //',
  ),
  ...words(
    '/events a/b $(id) `id` {{7*7}} __proto__ constructor toString hasOwnProperty null undefined NaN -0 1e400 0x10',
  ),
  ...words(
    ', ,,, a,,b " \' ` { } [] {} () | 1.0 +1 01 1e1 9007199254740993 -1 0 99999999999999999999 true false',
  ),
]

const units = [
  'a',
  ' ',
  '0',
  ',',
  '.',
  '%',
  '\\',
  '"',
  'é',
  '😀',
  '\u202e',
  '\0',
  '\ud800',
  '(((',
  'a.',
  '[',
  '{"a":',
]

/** Up to 100 KB of the same. */
export const hugeText = fc
  .tuple(fc.constantFrom(...units), fc.constantFrom(1_000, 4_097, 20_000, 100_000))
  .map(([unit, chars]) => unit.repeat(Math.ceil(chars / unit.length)))

export const nastyText = fc.oneof(
  { arbitrary: fc.constantFrom(...nastyTexts), weight: 8 },
  {
    arbitrary: fc
      .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 40 })
      .map((codes) => String.fromCharCode(...codes)),
    weight: 2,
  },
  { arbitrary: hugeText, weight: 1 },
)

const plainUnits = fc.constantFrom(
  ...Array.from({ length: 95 }, (_, place) => String.fromCharCode(32 + place)),
  ...['é', '中', '😀', '\u0301', '\u202e', '\n', '\t', '\x7f', '\ufeff', '\u2028'],
)

interface TextBounds {
  readonly min: number
  readonly max: number
}

/** Text that can be stored, of as many characters as the bounds allow: most of it short, some of it just fitting. */
export function plainText({ min, max }: TextBounds): fc.Arbitrary<string> {
  return fc.oneof(
    {
      // Not fc.string, which takes its time to find out what it can make of which unit.
      arbitrary: fc
        .array(plainUnits, { minLength: min, maxLength: Math.max(min, Math.min(max, 12)) })
        .map((units) => units.join('')),
      weight: 6,
    },
    { arbitrary: exactly(max), weight: 1 },
    { arbitrary: exactly(min), weight: 1 },
    {
      arbitrary: fc
        .constantFrom(...nastyTexts)
        .filter((text) => isPlain(text) && charsIn(text) >= min && charsIn(text) <= max),
      weight: 2,
    },
  )
}

/** Of that many characters, as JSON Schema counts them: a pair of surrogates is one. */
export function exactly(chars: number): fc.Arbitrary<string> {
  return fc.constantFrom('a', 'é', '😀', '~').map((unit) => unit.repeat(chars))
}

function charsIn(text: string): number {
  return [...text].length
}

/** Neither NUL nor half of a surrogate pair. */
export function isPlain(text: string): boolean {
  return !/[\0\p{Surrogate}]/u.test(text)
}
