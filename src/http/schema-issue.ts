import type { z } from 'zod'
import { badField as badValue } from '../domain/bad-value.ts'
import { leftOut } from '../domain/known-names.ts'
import type { PosthornError } from '../errors.ts'

type Issue = z.core.$ZodIssue
type Path = readonly PropertyKey[]

/** The first issue that a schema found, as an error that names the field, what was expected and what was given. */
export function toFieldError(schema: z.ZodType, value: unknown, error: z.ZodError): PosthornError {
  const [first] = error.issues
  if (first === undefined) return badField('the body', 'something else', value)
  const issue = meantIssue(first, value)
  const { path } = issue
  if (issue.code === 'unrecognized_keys') {
    const [name = ''] = issue.keys
    const expected = leftOut(name, namesAt(schema, path), 'there is no such field')
    return badField(fieldName([...path, name]), expected, valueAt(value, [...path, name]))
  }
  if (issue.code === 'invalid_key') return badName(issue)
  return badField(fieldName(path), expectation(issue), valueAt(value, path))
}

export function badField(field: string, expected: string, value: unknown): PosthornError {
  return badValue(field, expected, secretField.test(field) ? unrevealing(value) : value)
}

export function fieldName(path: Path): string {
  if (path.length === 0) return 'the body'
  return path
    .map((part) => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`))
    .join('')
    .replace(/^\./, '')
}

export function valueAt(value: unknown, path: Path): unknown {
  let found = value
  for (const part of path) {
    if (!has(found, part)) return undefined
    found = (found as Record<PropertyKey, unknown>)[part]
  }
  return found
}

function has(value: unknown, part: PropertyKey): boolean {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, part)
}

/** If several forms are allowed: the issue of the form that the value comes closest to. */
function meantIssue(issue: Issue, value: unknown): Issue {
  if (issue.code !== 'invalid_union') return issue
  const inner = issue.errors.flat().map((one) => {
    const path = [...issue.path, ...one.path]
    return meantIssue({ ...one, path }, value)
  })
  return inner.find((one) => one.path.length > issue.path.length && isGiven(value, one.path)) ?? issue
}

function isGiven(value: unknown, path: Path): boolean {
  return has(valueAt(value, path.slice(0, -1)), path.at(-1) as PropertyKey)
}

/** For a wrong name the error shows the name as the value: the value under that name may be right. */
function badName({ path, issues }: Extract<Issue, { code: 'invalid_key' }>): PosthornError {
  const name = String(path.at(-1))
  const field = fieldName(name === '' ? path.slice(0, -1) : path)
  const [first] = issues
  const expected = `named by ${first === undefined ? 'something else' : expectation(first)}`
  return badValue(field, expected, name)
}

/** The names that the object at this path may have; none if it may have several forms. */
function namesAt(schema: z.ZodType, path: Path): readonly string[] {
  let found: unknown = schema
  for (const part of path) {
    const { shape, element } = unwrap(found)
    found = typeof part === 'number' ? element : shape?.[String(part)]
  }
  return Object.keys(unwrap(found).shape ?? {})
}

interface SchemaParts {
  readonly shape?: Readonly<Record<string, unknown>>
  readonly element?: unknown
}

function unwrap(schema: unknown): SchemaParts {
  let inner = schema as (SchemaParts & { unwrap?: () => unknown }) | undefined
  while (inner?.shape === undefined && inner?.element === undefined && inner?.unwrap !== undefined)
    inner = inner.unwrap() as typeof inner
  return inner ?? {}
}

/** Zod says "Invalid input: expected string, received undefined"; our errors say "expected" and the value themselves. */
function expectation({ message }: Issue): string {
  return message
    .replace(/^Invalid input: expected /, '')
    .replace(/, received .*$/, '')
    .replace(/^record$/, 'object')
    .replace(/^Invalid option: expected /, '')
    .replace(/^Invalid input$/, 'of another form')
    .replace(/^Invalid UUID$/, 'a UUID')
    .replace(/^Invalid ISO datetime$/, 'an ISO 8601 time with an offset')
    .replace(/^Too (small|big): expected \w+ to (be|have) /, '')
    .replace(/^Invalid string: must match pattern /, 'text like ')
}

/** Fields that hold secrets: receivers authenticate by the values of headers. */
const secretField = /^(secret$|headers($|[.[]))/

/** A secret with a typing error is still a secret, and many clients log answers. */
function unrevealing(value: unknown): unknown {
  if (value === undefined) return 'nothing'
  return value === null || value === '' ? value : 'something else'
}
