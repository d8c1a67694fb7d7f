import { payloadNestingMax } from '../domain/payload.ts'

/** Says where a text stops being JSON that can be stored; undefined if all of it is. */
export function findJsonFault(text: string): string | undefined {
  const fault = faultIn(text)
  if (fault === undefined) return undefined
  const { at, isTooDeep } = fault
  const before = text.slice(0, at).split('\n')
  const place = `line ${before.length}, column ${(before.at(-1) as string).length + 1}`
  if (isTooDeep) return `it is nested more than ${payloadNestingMax} deep, at ${place}`
  if (at >= text.trimEnd().length) return `it ends too early, at ${place}`
  return `${place} cannot be read, from here on: ${text.slice(at, at + 20).split('\n')[0]}`
}

class Fault extends Error {
  readonly at: number
  readonly isTooDeep: boolean

  constructor(at: number, { isTooDeep = false } = {}) {
    super('Not JSON that can be stored')
    this.at = at
    this.isTooDeep = isTooDeep
  }
}

function faultIn(text: string): Fault | undefined {
  try {
    const end = skipSpace(text, endOfValue(text, skipSpace(text, 0), 0))
    return end < text.length ? new Fault(end) : undefined
  } catch (error) {
    if (error instanceof Fault) return error
    throw error
  }
}

/** `depth`: how many lists and objects surround the value. Its bound also keeps the stack short. */
function endOfValue(text: string, at: number, depth: number): number {
  if (text[at] === '{') return endOfList(text, at, depth + 1, { close: '}', endOfItem: endOfMember })
  if (text[at] === '[') return endOfList(text, at, depth + 1, { close: ']', endOfItem: endOfValue })
  return endOf(scalar, text, at)
}

function endOfMember(text: string, start: number, depth: number): number {
  const at = skipSpace(text, endOf(string, text, start))
  if (text[at] !== ':') throw new Fault(at)
  return endOfValue(text, skipSpace(text, at + 1), depth)
}

interface ListForm {
  readonly close: string
  readonly endOfItem: typeof endOfValue
}

function endOfList(text: string, start: number, depth: number, { close, endOfItem }: ListForm): number {
  if (depth > payloadNestingMax) throw new Fault(start, { isTooDeep: true })
  let at = skipSpace(text, start + 1)
  if (text[at] === close) return at + 1
  for (;;) {
    at = skipSpace(text, endOfItem(text, at, depth))
    if (text[at] === close) return at + 1
    if (text[at] !== ',') throw new Fault(at)
    at = skipSpace(text, at + 1)
  }
}

const string = /"(?:[^"\\\p{Cc}]|[\x7f-\x9f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*"/uy
const scalar = new RegExp(
  `${string.source}|-?(?:0|[1-9]\\d*)(?:\\.\\d+)?(?:[eE][+-]?\\d+)?|true|false|null`,
  'uy',
)

function endOf(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at
  if (!pattern.test(text)) throw new Fault(at)
  return pattern.lastIndex
}

function skipSpace(text: string, from: number): number {
  let at = from
  while (' \t\r\n'.includes(text[at] ?? 'x')) at++
  return at
}
