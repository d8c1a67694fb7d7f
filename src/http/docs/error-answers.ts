import { type ErrorCode, type ErrorDetails, errorCodes, errorTable, PosthornError } from '../../errors.ts'
import { problemType, retryAfterSeconds, toProblem } from '../problem.ts'
import type { Route } from '../route.ts'
import type { Response } from './document.ts'

/** The error answers of a route, by status. */
export function errorResponses(route: Route): (readonly [status: string, response: Response])[] {
  const codes = errorsOf(route)
  const statuses = [...new Set(codes.map((code) => errorTable[code].status))]
  return statuses.map((status) => [
    String(status),
    responseOf(codes.filter((code) => errorTable[code].status === status)),
  ])
}

/** One example problem for each error that some route can answer with. */
export function errorExamples(routes: readonly Route[]): Record<string, { summary: string; value: object }> {
  const given = new Set(routes.flatMap(errorsOf))
  const examples = errorCodes
    .filter((code) => given.has(code))
    .map((code) => {
      const value = exampleProblem(code)
      return [wireName(code), { summary: value.title, value }]
    })
  return Object.fromEntries(examples)
}

/** The whole error table, with the details as names in braces. */
export function errorWords(): Record<string, { status: number; message: string }> {
  return Object.fromEntries(errorCodes.map((code) => [wireName(code), { ...errorTable[code] }]))
}

/** The errors that the route names, and those that every request of its kind can meet, in the order of the table. */
function errorsOf({ method, scope, params, body, errors = [] }: Route): ErrorCode[] {
  // A lease is a write, even by GET.
  const writes = method !== 'HEAD' && (method !== 'GET' || scope === 'consume')
  const met = new Set<ErrorCode>([...anyRequest, ...errors])
  if (params !== undefined) met.add('NOT_FOUND')
  if (scope !== null) for (const code of anyKey) met.add(code)
  if (scope !== null && writes) met.add('COMMIT_UNKNOWN').add('DISK_FULL')
  // The server reads a body even if the route takes none.
  if (method !== 'GET' && method !== 'HEAD') for (const code of anyBody) met.add(code)
  if (body !== undefined) met.add('BAD_JSON')
  return errorCodes.filter((code) => met.has(code))
}

const anyRequest = [
  'BAD_REQUEST',
  'BAD_FIELD',
  'HEAD_TOO_LARGE',
  'PIPELINE_FULL',
  'REQUEST_TIMEOUT',
  'INTERNAL',
] as const
const anyKey = [
  'UNAUTHORIZED',
  'FORBIDDEN',
  'FOREIGN_REQUEST',
  'RATE_LIMITED',
  'DATABASE_UNAVAILABLE',
  'STATEMENT_TIMEOUT',
] as const
const anyBody = ['BODY_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE', 'OVERLOADED'] as const

function responseOf(codes: readonly ErrorCode[]): Response {
  const problems = codes.map(exampleProblem)
  const isWorthRetrying = problems.some((problem) => retryAfterSeconds(problem) !== undefined)
  const names = codes.map(wireName)
  return {
    description: `${problems.map(({ title }) => title).join(', ')}.`,
    ...(isWorthRetrying && { headers: { 'retry-after': retryAfter } }),
    content: {
      [problemType]: {
        schema: { $ref: '#/components/schemas/Problem' },
        examples: Object.fromEntries(names.map((name) => [name, { $ref: `#/components/examples/${name}` }])),
      },
    },
  }
}

const retryAfter = {
  description: 'Seconds to wait before trying again',
  schema: { type: 'integer' as const },
}

function exampleProblem(code: ErrorCode) {
  const named = [...errorTable[code].message.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
  const details = Object.fromEntries(named.map((name) => [name, detailWords[name]]))
  return toProblem(new PosthornError(code, { ...details, ...ownDetails[code] }), requestId)
}

function wireName(code: ErrorCode): string {
  return code.toLowerCase()
}

const requestId = '9f2c61d0ab37-42'

const detailWords: ErrorDetails = {
  field: 'max_retries',
  option: 'limit',
  expected: 'a whole number from 1 to 1000',
  value: 0,
  bytes: 1_200_000,
  bytesMax: 1_048_576,
  scope: 'manage',
  key: 'k7m2p9x4c1ab',
  perSecond: 100,
  retryAfterSeconds: 1,
  what: 'event',
  id: 1001,
  eventId: 1001,
  state: 'leased by worker-03:911 in work',
  subscriptions: 'billing, audit',
  subscription: 'billing',
  name: 'billing',
  queue: 'work',
  events: 12,
  rounds: 5,
  keyId: '9f2c61d0',
  version: 7,
  requestId,
}

const ownDetails: Partial<Record<ErrorCode, ErrorDetails>> = {
  BAD_PAYLOAD: { reason: 'it holds a NUL character' },
  BAD_JSON: { reason: 'Unexpected end of JSON input' },
  BAD_REQUEST: { reason: 'a header is malformed' },
  UNSUPPORTED_MEDIA_TYPE: { header: 'Content-Type', expected: 'application/json', value: 'text/plain' },
  FOREIGN_REQUEST: { header: 'Host', value: 'hub.example' },
  MAX_RETRIES_EXCEEDED: { eventId: 1001, retryCount: 3, maxRetries: 3 },
  IDEMPOTENCY_MISMATCH: { key: 'order-42' },
  NOT_WAITING: { id: '0198e2a4-7c1b-7d52-9a3e-5f0c6b8d1e27', deliveryStatus: 'delivering' },
  NOT_RETRYABLE: {
    what: 'delivery',
    id: '0198e2a4-7c1b-7d52-9a3e-5f0c6b8d1e27',
    reason: 'it is delivered now',
  },
  ALREADY_RETRIED: {
    id: '0198e2a4-7c1b-7d52-9a3e-5f0c6b8d1e27',
    by: 'k7m2p9x4c1ab',
    at: '2026-01-05T09:30:00.000Z',
  },
  NOT_BLOCKED: { key: 'customer-7' },
  PIPELINE_FULL: { requestsMax: 100, retryAfterSeconds: 1 },
  DATABASE_UNAVAILABLE: { reason: 'connect ECONNREFUSED' },
}
