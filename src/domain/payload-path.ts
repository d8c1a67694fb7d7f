/** A value in a payload: the keys and indexes that lead to it, and its text. */
export interface PayloadPath {
  readonly path: readonly string[]
  readonly value: string
}

export function isPath(given: unknown): given is PayloadPath {
  const { path, value } = (given ?? {}) as Partial<PayloadPath>
  return typeof value === 'string' && Array.isArray(path) && path.every((key) => typeof key === 'string')
}

/** Whether the payload has every value at its path. A payload that cannot be parsed has none. */
export function hasValues(payloadText: string, paths: readonly PayloadPath[]): boolean {
  let payload: unknown
  try {
    payload = JSON.parse(payloadText)
  } catch {
    return false
  }
  return paths.every(({ path, value }) => isText(valueAt(payload, path), value, payloadText))
}

const indexForm = /^(0|[1-9]\d*)$/

function valueAt(payload: unknown, path: readonly string[]): unknown {
  let value = payload
  for (const key of path) {
    if (typeof value !== 'object' || value === null) return undefined
    if (Array.isArray(value) ? !indexForm.test(key) : !Object.hasOwn(value, key)) return undefined
    value = (value as Record<string, unknown>)[key]
  }
  return value
}

/** Compares with the text that JSON has for the value; strings are compared without quotes. */
function isText(value: unknown, text: string, payloadText: string): boolean {
  if (typeof value === 'string') return value === text
  if (typeof value === 'boolean' || value === null) return String(value) === text
  return typeof value === 'number' && isNumberText(value, text, payloadText)
}

/** Parsing rounds numbers of more than 16 digits, so the payload must then contain the digits as they were given. */
function isNumberText(value: number, text: string, payloadText: string): boolean {
  if (String(value) === text) return Number.isSafeInteger(value) || payloadText.includes(text)
  return text !== '' && Number(text) === value && payloadText.includes(text)
}
