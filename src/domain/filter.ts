import { badField } from './bad-value.ts'
import { isStorable } from './text.ts'

/** Conditions on an event besides its type and tags, by JSON pointer: all of them must hold. */
export type EventFilter = Readonly<Record<string, unknown>>

/** One condition, as the routing statement takes it. */
interface FilterCondition {
  readonly path: readonly string[]
  readonly op: 'any' | 'exists' | 'prefix' | 'gt' | 'gte' | 'lt' | 'lte'
  readonly operand: unknown
}

const pointersMax = 20
const operandsMax = 100
export const pointerCharsMax = 500
const roots =
  'payload type title description tags ordering_key concurrency_key version source correlation_id causation_id attributes'.split(
    ' ',
  )
/** The numbers that a filter can compare with. */
export const exactNumbers = 'integers up to 2^53 - 1, and fractions of up to 15 digits'
/** The forms that a condition can have. */
export const conditionForm = 'a value, a list of values, or exists, prefix, gt, gte, lt, lte'
/** The form of a pointer. */
export const pointerForm = new RegExp(`^/(${roots.join('|')})(/([^~/]|~[01])*)*$`, 'u')

/**
 * `{"/payload/paid": true}`: equals. A list: any of these. An object: `exists`, `prefix`, `gt`, `gte`, `lt`, `lte`.
 */
export function parseFilter(filter: unknown): FilterCondition[] {
  if (!isObject(filter)) throw badField('filter', 'conditions by JSON pointer', filter)
  const pointers = Object.keys(filter).length
  if (pointers === 0 || pointers > pointersMax) {
    throw badField('filter', `1 to ${pointersMax} conditions`, filter)
  }
  return Object.entries(filter).flatMap(([pointer, wanted]) => {
    const path = parsePointer(`filter ${pointer}`, pointer)
    const conditions = conditionsOf(pointer, wanted)
    for (const { operand } of conditions) checkExact(pointer, operand)
    return conditions.map((one) => ({ path, ...one }))
  })
}

/** RFC 6901, into the event: `/payload/invoice/id`, `/type`. Throws BAD_FIELD under that name. */
export function parsePointer(field: string, pointer: unknown): string[] {
  const isPointer =
    typeof pointer === 'string' &&
    pointer.length <= pointerCharsMax &&
    pointerForm.test(pointer) &&
    isStorable(pointer)
  if (isPointer) {
    return pointer
      .slice(1)
      .split('/')
      .map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'))
  }
  throw badField(field, `a JSON pointer that begins with one of /${roots.join(', /')}`, pointer)
}

function conditionsOf(pointer: string, wanted: unknown): Omit<FilterCondition, 'path'>[] {
  if (isScalar(wanted)) return [{ op: 'any', operand: [wanted] }]
  if (Array.isArray(wanted)) {
    if (wanted.length > 0 && wanted.length <= operandsMax && wanted.every(isScalar)) {
      return [{ op: 'any', operand: wanted }]
    }
    throw badField(`filter ${pointer}`, `1 to ${operandsMax} texts, numbers, booleans or nulls`, wanted)
  }
  if (!isObject(wanted) || Object.keys(wanted).length === 0)
    throw badField(`filter ${pointer}`, conditionForm, wanted)
  return Object.entries(wanted).map(([op, operand]) => {
    if (op === 'exists' && typeof operand === 'boolean') return { op, operand }
    if (op === 'prefix' && typeof operand === 'string' && operand !== '' && isScalar(operand))
      return { op, operand }
    if (isBound(op) && typeof operand === 'number') return { op, operand }
    throw badField(`filter ${pointer}`, conditionForm, wanted)
  })
}

/** JavaScript has rounded an integer beyond 2^53, and events are compared digit by digit. */
function checkExact(pointer: string, operand: unknown): void {
  for (const value of Array.isArray(operand) ? operand : [operand]) {
    if (typeof value !== 'number') continue
    if (Number.isSafeInteger(value) || (Number.isFinite(value) && !Number.isInteger(value))) continue
    // As text, since JSON cannot express NaN and Infinity.
    throw badField(`filter ${pointer}`, `numbers that are exact: ${exactNumbers}`, String(value))
  }
}

function isBound(op: string): op is 'gt' | 'gte' | 'lt' | 'lte' {
  return op === 'gt' || op === 'gte' || op === 'lt' || op === 'lte'
}

function isScalar(value: unknown): boolean {
  if (typeof value === 'string') return isStorable(value)
  return value === null || typeof value === 'number' || typeof value === 'boolean'
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
