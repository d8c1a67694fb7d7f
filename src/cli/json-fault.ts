/** Where a text stops being JSON, in words for whoever typed it; undefined if it is JSON. */
export function findJsonFault(text: string): string | undefined {
  const at = faultIn(text)
  if (at === undefined) return undefined
  const before = text.slice(0, at).split('\n')
  const place = `line ${before.length}, column ${(before.at(-1) as string).length + 1}`
  if (at >= text.trimEnd().length) return `it ends too early, at ${place}`
  return `${place} cannot be read, from here on: ${text.slice(at, at + 20).split('\n')[0]}`
}

class Fault extends Error {
  readonly at: number

  constructor(at: number) {
    super('Not JSON')
    this.at = at
  }
}

function faultIn(text: string): number | undefined {
  try {
    const end = skipSpace(text, endOfValue(text, skipSpace(text, 0)))
    return end < text.length ? end : undefined
  } catch (error) {
    if (error instanceof Fault) return error.at
    throw error
  }
}

function endOfValue(text: string, at: number): number {
  if (text[at] === '{') return endOfList(text, at, '}', endOfMember)
  if (text[at] === '[') return endOfList(text, at, ']', endOfValue)
  return endOf(scalar, text, at)
}

function endOfMember(text: string, start: number): number {
  const at = skipSpace(text, endOf(string, text, start))
  if (text[at] !== ':') throw new Fault(at)
  return endOfValue(text, skipSpace(text, at + 1))
}

function endOfList(text: string, start: number, close: string, endOfItem: typeof endOfValue): number {
  let at = skipSpace(text, start + 1)
  if (text[at] === close) return at + 1
  for (;;) {
    at = skipSpace(text, endOfItem(text, at))
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
