import { randomUUID } from 'node:crypto'
import { endOfString, endOfValue, quote } from '../domain/json-scan.ts'

/** A number that JSON.parse rounds, and where it is. */
export interface InexactNumber {
  readonly path: readonly (string | number)[]
  /** As it was written. */
  readonly text: string
}

/** Finds a number below `name` that would be another one after JSON.parse. The text must be JSON. */
export function findInexactNumber(text: string, name: string): InexactNumber | undefined {
  const inexact: string[] = []
  // Each such number is replaced by a marked text, which is then found in the parsed value.
  const mark = `${randomUUID()} `
  const marked = replaceNumbers(text, (token) =>
    isExact(token) ? token : JSON.stringify(mark + (inexact.push(token) - 1)),
  )
  if (inexact.length === 0) return undefined
  const value: unknown = JSON.parse(marked)
  const found = findMark((value as Record<string, unknown>)[name], mark, [name])
  return found && { path: found.path, text: inexact[found.place] as string }
}

/** No exact number needs more characters, unless it is padded with zeros. */
const charsMax = 1_000

function replaceNumbers(text: string, replace: (token: string) => string): string {
  let replaced = ''
  let from = 0
  for (let at = 0; at < text.length; ) {
    const char = text.charCodeAt(at)
    if (char === quote) at = endOfString(text, at)
    else if (isNumberStart(char)) {
      const end = endOfValue(text, at)
      replaced += text.slice(from, at) + replace(text.slice(at, end))
      from = end
      at = end
    } else at++
  }
  return replaced + text.slice(from)
}

/** A minus, or a digit. */
function isNumberStart(char: number): boolean {
  return char === 45 || (char >= 48 && char <= 57)
}

function findMark(
  value: unknown,
  mark: string,
  path: readonly (string | number)[],
): { path: readonly (string | number)[]; place: number } | undefined {
  if (typeof value === 'string' && value.startsWith(mark)) {
    return { path, place: Number(value.slice(mark.length)) }
  }
  if (typeof value !== 'object' || value === null) return undefined
  for (const [key, member] of Object.entries(value)) {
    const found = findMark(member, mark, [...path, Array.isArray(value) ? Number(key) : key])
    if (found !== undefined) return found
  }
  return undefined
}

function isExact(token: string): boolean {
  return token.length <= charsMax && digitsOf(token) === digitsOf(String(Number(token)))
}

/** One text for all ways to write a number; undefined if the number is infinite. */
function digitsOf(token: string): string | undefined {
  const parts = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(token)
  if (parts === null) return undefined
  const [, sign, whole = '', fraction = '', exponent = '0'] = parts
  const digits = (whole + fraction).replace(/^0+/, '')
  const significant = digits.slice(0, lastDigit(digits) + 1)
  if (significant === '') return '0'
  return `${sign}${significant}e${Number(exponent) - fraction.length + digits.length - significant.length}`
}

/** The position of the last digit that is not 0; -1: all are 0. */
function lastDigit(digits: string): number {
  let at = digits.length - 1
  while (digits[at] === '0') at--
  return at
}
