import type { FastifyRequest } from 'fastify'
import type { z } from 'zod'
import type { Scope } from '../domain/api-key.ts'
import type { ErrorCode } from '../errors.ts'

/** Everything there is to say of a route, once: it is served, checked and documented from this. */
export interface Route<
  Params extends z.ZodObject = z.ZodObject,
  Query extends z.ZodObject = z.ZodObject,
  Body extends z.ZodType = z.ZodType,
> {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE' | 'HEAD'
  /** As OpenAPI writes it: `/events/{id}`. */
  readonly path: string
  readonly name: string
  /** Null: open to everybody. */
  readonly scope: Scope | null
  readonly summary: string
  readonly description?: string
  readonly params?: Params
  readonly query?: Query
  /** Query parameters that begin with this are handed over as they came. */
  readonly queryPrefix?: string
  readonly body?: RouteBody<Body>
  readonly responses: Readonly<Record<number, RouteResponse>>
  /** Besides those that any request can meet. */
  readonly errors?: readonly ErrorCode[]
  handle(call: Call<z.output<Params>, z.output<Query>, z.output<Body>>): Promise<Answer> | Answer
}

/** `json` bodies are parsed and checked; `bytes` are for routes that keep them as they came, and only described. */
export type RouteBody<Body extends z.ZodType> =
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

export interface RouteContent {
  readonly schema: z.ZodType
  readonly example?: unknown
  /** Where it may be longer than the route's other contents. */
  readonly bytesMax?: number
}

export interface RouteResponse {
  readonly description: string
  readonly schema?: z.ZodType
  readonly contentType?: string
  /** Other forms that a client may ask for, by media type. */
  readonly otherContents?: Readonly<Record<string, z.ZodType>>
  readonly example?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

/** Who asks: a key, or anybody on this machine while there are none. */
export interface Caller {
  /** Empty without keys. */
  readonly id: string
  /** For the admin log. */
  readonly name: string
  readonly remote: string
}

export interface Call<Params, Query, Body> {
  readonly params: Params
  readonly query: Query
  /** Those with the route's prefix, without it. */
  readonly prefixed: readonly (readonly [name: string, value: string])[]
  readonly body: Body
  readonly bytes: Buffer
  readonly caller: Caller
  readonly request: FastifyRequest
  /** Aborted when the client has gone. */
  readonly signal: AbortSignal
  /** Throws if the caller may no longer do this: a key can be revoked while its call waits. */
  readonly stillAllowed: () => Promise<void>
}

export interface Answer {
  readonly status: number
  /** Sent as JSON. */
  readonly json?: unknown
  /** Sent as it is. */
  readonly text?: string | Buffer
  readonly contentType?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Called if the client has gone before it had all of the answer. */
  readonly undelivered?: () => Promise<void>
}

/** Keeps the types of its schemas in its handler. */
export function defineRoute<
  Params extends z.ZodObject = z.ZodObject,
  Query extends z.ZodObject = z.ZodObject,
  Body extends z.ZodType = z.ZodType,
>(route: Route<Params, Query, Body>): Route {
  return route as unknown as Route
}
