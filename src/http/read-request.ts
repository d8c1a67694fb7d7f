import type { FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { exactNumbers } from '../domain/filter.ts'
import { decodeUtf8 } from '../domain/json-members.ts'
import { parseTags } from '../domain/tags.ts'
import { isStorable } from '../domain/text.ts'
import { PosthornError } from '../errors.ts'
import { findInexactNumber } from './inexact-numbers.ts'
import { unsupported } from './read-bytes.ts'
import type { Call, Route } from './route.ts'
import { badField, fieldName, toFieldError, valueAt } from './schema-issue.ts'

type Fields = Record<string, unknown>
type Parts = Pick<Call<Fields, Fields, unknown>, 'params' | 'query' | 'prefixed' | 'body' | 'bytes'>

/** Reads a request, and checks its parts against the schemas of the route. */
export function readRequest(route: Route, request: FastifyRequest): Parts {
  const bytes = Buffer.isBuffer(request.body) ? request.body : noBytes
  const { known, prefixed } = splitQuery(route, request.query as Record<string, unknown>)
  return {
    params: route.params === undefined ? {} : (check(route.params, request.params) as Fields),
    query: check(route.query, known) as Fields,
    prefixed,
    body: route.body?.kind === 'json' ? readJson(route.body, request, bytes) : undefined,
    bytes,
  }
}

/** Tags to filter by: at least one. */
export function readTags(given: string | readonly string[]): readonly string[] {
  const tags = readAnyTags(given)
  if (tags === null || tags.length === 0) throw badField('tags', 'at least one tag', given)
  return tags
}

/** Null: no tags. Here a bad tag is a bad field of the request, not a bad event. */
export function readAnyTags(given: string | readonly string[]): readonly string[] | null {
  try {
    return parseTags(given)
  } catch (error) {
    if (!(error instanceof PosthornError)) throw error
    throw new PosthornError('BAD_FIELD', error.details, { cause: error })
  }
}

/** Refuses text that PostgreSQL cannot store. */
export function readStorable(field: string, text: string): string {
  if (isStorable(text)) return text
  throw badField(field, 'text without NUL and lone surrogates', text)
}

const noBytes = Buffer.alloc(0)

function splitQuery({ queryPrefix }: Route, query: Record<string, unknown>) {
  const known: Record<string, unknown> = Object.create(null)
  const prefixed: [string, string][] = []
  for (const [name, value] of Object.entries(query)) {
    if (Array.isArray(value)) throw badField(name, 'given once', `${value.length} times`)
    readStorable(name, String(value))
    if (queryPrefix !== undefined && name.startsWith(queryPrefix)) {
      prefixed.push([readStorable(name, name.slice(queryPrefix.length)), String(value)])
    } else known[name] = value
  }
  return { known, prefixed }
}

function readJson(
  body: Extract<NonNullable<Route['body']>, { kind: 'json' }>,
  { headers }: FastifyRequest,
  bytes: Buffer,
): unknown {
  const type = headers['content-type']
  if (bytes.length === 0 && body.isOptional === true) return check(body.schema, {})
  if (type !== undefined && !jsonType.test(type)) {
    throw unsupported('Content-Type', 'application/json', type)
  }
  const text = decodeUtf8(bytes)
  let value: unknown
  try {
    value = text.includes('__proto__') ? JSON.parse(text, refuseProto) : JSON.parse(text)
  } catch (error) {
    if (error instanceof PosthornError) throw error
    const reason = (error as Error).message.split('\n', 1)[0]?.slice(0, 200)
    throw new PosthornError('BAD_JSON', { reason: bytes.length === 0 ? 'it is empty' : reason })
  }
  checkFilter(text, value)
  return check(body.schema, value)
}

/** JSON.parse rounds numbers silently, and a filter with a rounded number would match other events. */
function checkFilter(text: string, body: unknown): void {
  if (valueAt(body, ['filter']) === undefined) return
  const inexact = findInexactNumber(text, 'filter')
  if (inexact !== undefined) {
    throw badField(fieldName(inexact.path), `a number that is exact: ${exactNumbers}`, inexact.text)
  }
}

/** No schema sees a member of this name, so it would be dropped silently. */
function refuseProto(key: string, value: unknown): unknown {
  if (key === '__proto__') throw badField(key, 'left out', value)
  return value
}

/** The default of curl is accepted: a sender that forgets the header means JSON. */
const jsonType = /^application\/(json|x-www-form-urlencoded)\s*(;|$)/i

function check(schema: z.ZodType | undefined, value: unknown): unknown {
  if (schema === undefined) {
    const [stranger] = Object.keys(value as object)
    if (stranger === undefined) return {}
    throw badField(stranger, 'left out', (value as Record<string, unknown>)[stranger])
  }
  const { success, data, error } = schema.safeParse(value)
  if (success) return data
  throw toFieldError(schema, value, error)
}
