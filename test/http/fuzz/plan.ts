import type { OpenApiDocument, Operation, Parameter } from '../../../src/http/docs/document.ts'
import type { JsonSchema } from '../../../src/http/docs/json-schemas.ts'
import { fill, type Slot, type Tree, write } from './tree.ts'

/** A request before its slots are filled. */
export interface Plan {
  /** What it is aimed at, or what it is about. */
  readonly name: string
  readonly method: string
  /** A template, or a path as it is. */
  readonly path: string
  readonly params: Readonly<Record<string, Tree>>
  readonly query: readonly (readonly [name: string, value: Tree])[]
  /** Appended to the query as it is. */
  readonly more: string
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly contentType: string | null
  readonly body: Tree | Buffer | undefined
  /** It says what the document says in the way of HTTP, so the document can judge it. */
  readonly isPlain: boolean
}

export interface Aim {
  readonly name: string
  readonly method: string
  readonly path: string
  readonly operation: Operation
  readonly parameters: readonly Parameter[]
  /** By media type. */
  readonly bodies: readonly (readonly [type: string, schema: JsonSchema])[]
}

export function aimsOf(document: OpenApiDocument): Aim[] {
  return Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => ({
      ...{ name: operation.operationId, method: method.toUpperCase(), path, operation },
      parameters: operation.parameters ?? [],
      bodies: Object.entries(operation.requestBody?.content ?? {}).map(
        ([type, { schema = {} }]) => [type, schema] as const,
      ),
    })),
  )
}

export const emptyPlan: Omit<Plan, 'name' | 'method' | 'path'> = {
  ...{ params: {}, query: [], more: '', headers: [], contentType: null, body: undefined, isPlain: false },
}

/** `payload.<path>` stands for names that are open. */
export function isOpen({ name }: Parameter): boolean {
  return name.includes('<')
}

/** A request as it is sent. */
export interface Sent extends Plan {
  readonly target: string
  readonly bytes: Buffer | undefined
  /** How long it may take besides. */
  readonly waitMs: number
}

/** A thousand events of several kilobytes each take their time, on a machine that does other things as well. */
const bytesPerMs = 2_000

export function toSent(plan: Plan, look: (slot: Slot) => string | number): Sent {
  const params = Object.fromEntries(
    Object.entries(plan.params).map(([name, value]) => [name, fill(value, look)]),
  )
  const query = plan.query.map(([name, value]) => [name, fill(value, look)] as const)
  const path = plan.path.replace(/\{(\w+)\}/g, (_, name: string) => encode(textOf(params[name] ?? '')))
  const asked = query.map(([name, value]) => `${encode(name)}=${encode(textOf(value))}`).join('&') + plan.more
  const askedMs = query.some(([name, value]) => name === 'wait' && value === 1) ? 1_000 : 0
  const body = plan.body === undefined || Buffer.isBuffer(plan.body) ? plan.body : fill(plan.body, look)
  const bytes = body === undefined || Buffer.isBuffer(body) ? body : Buffer.from(write(body))
  return {
    ...{ ...plan, params, query, body, bytes },
    target: asked === '' ? path : `${path}?${asked}`,
    waitMs: askedMs + (bytes?.length ?? 0) / bytesPerMs,
  }
}

export function textOf(tree: Tree): string {
  return typeof tree === 'string' ? tree : typeof tree === 'number' ? String(tree) : write(tree)
}

/** As encodeURIComponent does, and half of a surrogate pair as the bytes that UTF-8 would have for it. */
function encode(text: string): string {
  return [...text]
    .map((char) => {
      const code = char.codePointAt(0) as number
      if (code < 0xd800 || code > 0xdfff) return encodeURIComponent(char)
      return `%ED%${(0x80 | ((code >> 6) & 0x3f)).toString(16)}%${(0x80 | (code & 0x3f)).toString(16)}`
    })
    .join('')
}

/** On the wire. Everything that is not the body is one byte a character. */
export function toBytes(
  { method, target, headers, contentType, bytes }: Sent,
  usual: Plan['headers'],
): Buffer {
  const given = new Set(headers.map(([name]) => name.toLowerCase()))
  const all = [...usual.filter(([name]) => !given.has(name.toLowerCase())), ...headers]
  const lines = all.map(([name, value]) => `${name}: ${value}`)
  if (contentType !== null) lines.push(`Content-Type: ${contentType}`)
  const chunked = given.has('transfer-encoding')
  if (bytes !== undefined && !chunked && !given.has('content-length'))
    lines.push(`Content-Length: ${bytes.length}`)
  const head = Buffer.from(`${method} ${target} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`, 'latin1')
  return Buffer.concat([head, chunked ? toChunks(bytes ?? nothing) : (bytes ?? nothing)])
}

const nothing = Buffer.alloc(0)

function toChunks(bytes: Buffer): Buffer {
  const half = Math.ceil(bytes.length / 2)
  const parts = [bytes.subarray(0, half), bytes.subarray(half)].filter((part) => part.length > 0)
  const chunks = parts.flatMap((part) => [
    Buffer.from(`${part.length.toString(16)}\r\n`),
    part,
    Buffer.from('\r\n'),
  ])
  return Buffer.concat([...chunks, Buffer.from('0\r\n\r\n')])
}
