import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { Scope } from '../domain/api-key.ts'
import type { ErrorCode } from '../errors.ts'

type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE' | 'HEAD'

/** A route says everything about itself here: the server serves, checks and documents it from this one object. */
export interface Route<
  Params extends z.ZodObject = z.ZodObject,
  Query extends z.ZodObject = z.ZodObject,
  Body extends z.ZodType = z.ZodType,
> extends RouteTerms<Params, Query, Body> {
  readonly method: Method
  /** As OpenAPI writes a path: `/events/{id}`. */
  readonly path: string
  /** The operation id. */
  readonly name: string
  /** Null: no API key is needed. */
  readonly scope: Scope | null
}

export interface RouteTerms<Params extends z.ZodObject, Query extends z.ZodObject, Body extends z.ZodType> {
  readonly summary: string
  readonly description?: string
  readonly params?: Params
  readonly query?: Query
  /** Query parameters whose names begin with this prefix are handed to the handler unchecked. */
  readonly queryPrefix?: string
  readonly body?: RouteBody<Body>
  readonly responses: Readonly<Record<number, RouteResponse>>
  /** Besides those that every request of its kind can meet: docs/error-answers.ts adds them. */
  readonly errors?: readonly ErrorCode[]
  handle(call: Call<z.output<Params>, z.output<Query>, z.output<Body>>): Promise<Answer> | Answer
}

/** The server parses and checks a `json` body. It hands `bytes` to the handler as they came, and only documents their schema. */
type RouteBody<Body extends z.ZodType> =
  | {
      readonly kind: 'json'
      readonly schema: Body
      readonly isOptional?: boolean
      readonly example?: unknown
      readonly bytesMax?: number
    }
  | {
      readonly kind: 'bytes'
      readonly contents: Readonly<Record<string, RouteContent>>
      readonly bytesMax: number
    }

interface RouteContent {
  readonly schema: z.ZodType
  readonly example?: unknown
  /** Overrides the limit of the body for this content type. */
  readonly bytesMax?: number
}

export interface RouteResponse {
  readonly description: string
  readonly schema?: z.ZodType
  readonly contentType?: string
  /** Further formats that a client may ask for, by media type. */
  readonly otherContents?: Readonly<Record<string, z.ZodType>>
  readonly example?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

/** Who calls: the holder of an API key, or, while no API keys exist, anybody on this machine. */
export interface Caller {
  /** The id of the API key; empty while no API keys exist. */
  readonly id: string
  /** For the admin log. */
  readonly name: string
  readonly remote: string
}

export interface Call<Params, Query, Body> {
  readonly params: Params
  readonly query: Query
  /** The query parameters with the route's prefix; the prefix is cut off their names. */
  readonly prefixed: readonly (readonly [name: string, value: string])[]
  readonly body: Body
  readonly bytes: Buffer
  readonly caller: Caller
  readonly request: FastifyRequest
  /** Aborted when the client has disconnected. */
  readonly signal: AbortSignal
  /** Throws if the caller has lost its right to this call: an API key can be revoked while a call waits. */
  readonly stillAllowed: () => Promise<void>
}

export interface Answer {
  readonly status: number
  /** Sent as JSON. */
  readonly json?: unknown
  /** Sent unchanged. */
  readonly text?: string | Buffer
  readonly contentType?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Called if the client disconnects before it has received the whole answer. */
  readonly undelivered?: () => Promise<void>
}

/** The types of the schemas reach the handler through this function. */
export function defineRoute<
  Params extends z.ZodObject = z.ZodObject,
  Query extends z.ZodObject = z.ZodObject,
  Body extends z.ZodType = z.ZodType,
>(
  line: `${Method} /${string}`,
  name: string,
  scope: Scope | null,
  terms: RouteTerms<Params, Query, Body>,
): Route {
  const [method, path] = line.split(' ', 2) as [Method, string]
  return { method, path, name, scope, ...terms } as unknown as Route
}

/** For routes that need no body, but accept `{}`. */
export const emptyBody = { kind: 'json', schema: z.strictObject({}), isOptional: true } as const
