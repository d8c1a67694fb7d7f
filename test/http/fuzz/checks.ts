import { createHash } from 'node:crypto'
import { availableParallelism, loadavg } from 'node:os'
import { type ErrorCode, errorCodes, errorTable } from '../../../src/errors.ts'
import type { Route } from '../../../src/http/route.ts'
import { problem } from '../../../src/http/schemas.ts'
import type { RawAnswer } from './connection.ts'
import type { Verdict } from './judge.ts'
import type { Aim, Sent } from './plan.ts'

/** How long an answer may take, where nobody else uses the machine. */
const answerMsMax = 2_000

/** What must hold of every answer, whatever was asked. Each complaint is a sentence. */
export function complaintsOf(answer: RawAnswer, waitMs = 0): string[] {
  const { status, headers, body, ms } = answer
  const text = body.toString()
  const complaints: string[] = []
  const complain = (when: boolean, what: string) => when && complaints.push(what)
  complain(!(status >= 200 && status < 500), `status ${status}`)
  complain(ms > answerMsMax * crowd() + waitMs, `it took ${Math.round(ms)} ms`)
  complain(!/^[\w.-]{1,64}$/.test(headers.get('x-request-id') ?? ''), 'no X-Request-Id')
  complain(
    headers.get('content-type') !== 'text/html; charset=utf-8' && tellsOfInside(text),
    'it tells of the inside',
  )
  complain(status === 204 && headers.has('content-type'), 'a type for no content')
  if (status >= 400) complaints.push(...problemComplaints(answer, text))
  return complaints
}

/** How many want each processor: where ten share one, everything takes ten times as long. */
function crowd(): number {
  return Math.max(1, (loadavg()[0] ?? 0) / availableParallelism())
}

/** Frames of a stack, names of files, and the words of PostgreSQL. */
const insideWords =
  /\bat [^"]*\.[cm]?[jt]s:\d|\.[cm]?[jt]s:\d+|node_modules|syntax error at|invalid input syntax|violates \w+ constraint|invalid byte sequence/

/** Where the code lies is nobody's business either. */
function tellsOfInside(text: string): boolean {
  return insideWords.test(text) || text.includes(process.cwd())
}

function problemComplaints({ status, headers, body }: RawAnswer, text: string): string[] {
  if (!isProblem(headers)) return [`an error of type ${headers.get('content-type')}`]
  if (body.length === 0) return []
  const told = problem.safeParse(parseJson(text))
  if (!told.success) return [`no problem: ${told.error.message}`]
  const { code, status: said, instance } = told.data
  if (!isErrorCode(code.toUpperCase())) return [`the code ${code} is not in the table`]
  const tabled = errorTable[code.toUpperCase() as ErrorCode].status
  return [
    ...(tabled === status && said === status
      ? []
      : [`${code} with ${status}, ${said} in the body, ${tabled} in the table`]),
    ...(instance === headers.get('x-request-id') ? [] : [`the instance ${instance} is not the X-Request-Id`]),
  ]
}

function isProblem(headers: RawAnswer['headers']): boolean {
  return /^application\/problem\+json(; charset=utf-8)?$/.test(headers.get('content-type') ?? '')
}

function isErrorCode(code: string): code is ErrorCode {
  return (errorCodes as string[]).includes(code)
}

/** What an answer must be because of what was asked. */
export function routeComplaints(
  aim: Aim,
  route: Route,
  sent: Sent,
  answer: RawAnswer,
  verdict: Verdict,
): string[] {
  const { status } = answer
  const code = codeOf(answer)
  const said = aim.operation.responses[String(status)]
  const excerpt =
    code === undefined
      ? ''
      : `: ${String((parseJson(answer.body.toString()) as { detail?: unknown })?.detail).slice(0, 200)}`
  const complaints: string[] = []
  if (said === undefined) complaints.push(`the document has no answer ${status}${excerpt}`)
  else if (code !== undefined && !(code in (said.content?.['application/problem+json']?.examples ?? {}))) {
    complaints.push(`the document has no ${code} here${excerpt}`)
  }
  if (verdict === 'allowed' && status >= 400 && !business.has(code ?? ''))
    complaints.push(`the document allows it, and it is ${code}${excerpt}`)
  if (verdict === 'forbidden' && status < 300) complaints.push('the document forbids it, and it is accepted')
  if (status < 300) complaints.push(...contentComplaints(aim, route, sent, answer))
  return complaints
}

/** What can happen to a request that is right in itself. */
const business = new Set([
  ...[
    'not_found',
    'lease_lost',
    'queue_draining',
    'queue_full',
    'ambiguous_lease',
    'max_retries_exceeded',
    'name_taken',
    'idempotency_mismatch',
    'not_waiting',
    'not_finished',
    'not_retryable',
    'already_retried',
    'not_blocked',
  ],
  // The document does not say how long all parameters may be together.
  'head_too_large',
])

function contentComplaints(
  aim: Aim,
  route: Route,
  { method }: Sent,
  { status, headers, body }: RawAnswer,
): string[] {
  if (status === 204 || method === 'HEAD') return body.length === 0 ? [] : ['content where there is none']
  // A CloudEvent in binary mode has the type of its data, or none.
  if (headers.get('ce-specversion') === '1.0') return []
  const [type = ''] = (headers.get('content-type') ?? '').split(';')
  const contents = aim.operation.responses[String(status)]?.content ?? {}
  if (!(type in contents)) return [`the document has no ${type} for ${status}`]
  const { schema: own, otherContents = {} } = route.responses[status] ?? {}
  const schema = otherContents[type] ?? own
  if (schema === undefined || !type.endsWith('json')) return []
  const fit = schema.safeParse(parseJson(body.toString()))
  return fit.success ? [] : [`the answer does not fit: ${JSON.stringify(fit.error.issues[0])}`]
}

function codeOf({ status, headers, body }: RawAnswer): string | undefined {
  if (status < 400 || !isProblem(headers)) return undefined
  const { code } = (parseJson(body.toString()) ?? {}) as { code?: unknown }
  return typeof code === 'string' ? code : undefined
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The payload is what stands between two members whose names no text before it can hold unescaped. */
export function payloadComplaints(text: string, sent: string): string[] {
  const start = text.indexOf(',"payload":') + ',"payload":'.length
  const length = text.slice(start).indexOf(',"ordering_key":', sent.length)
  const stored = text.slice(start, start + length)
  return sha256(stored) === sha256(sent)
    ? []
    : [`the payload ${sent.slice(0, 100)} came back as ${stored.slice(0, 100)}`]
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
