import type { IncomingMessage } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { PosthornError } from '../errors.ts'
import type { Logger } from '../observe/log.ts'
import type { FinishedRequest } from '../observe/request-metrics.ts'
import {
  answerOddRequests,
  checkHost,
  type RefuseConnection,
  refuseBrokenRequest,
} from './broken-requests.ts'
import { Expectations } from './expectations.ts'
import { Gate, type KeyCheck } from './gate.ts'
import { confirmAnswers, hangUpOf } from './hang-up.ts'
import { methodsOf, missingRoute, reserveNamedPaths } from './methods.ts'
import { problemType, retryAfterSeconds, toProblem } from './problem.ts'
import { bytesMaxOf, readBytes, refuseCodings } from './read-bytes.ts'
import { readRequest } from './read-request.ts'
import { requestIdOf } from './request-id.ts'
import { RequestsUnderWay } from './requests-under-way.ts'
import type { Answer, Caller, Route } from './route.ts'

export interface ServerOptions {
  readonly routes: readonly Route[]
  readonly keys: KeyCheck
  readonly log: Logger
  /** Called for every answered request. */
  readonly observe?: (request: FinishedRequest) => void
  readonly timeouts?: Timeouts
  /** The most bytes of bodies in memory at once. */
  readonly bodyBytesMax?: number
  /** How long idle connections may still send a request while the server closes. */
  readonly lingerMs?: number
}

export interface Timeouts {
  /** How long a client may take to send its headers, and its whole request. */
  readonly headersMs: number
  readonly requestMs: number
  /** How long a connection with a request may be silent: longer than any long poll. */
  readonly stalledMs: number
}

export interface Server {
  readonly app: FastifyInstance
  /** Resolves to the URL of the server. */
  listen(address: { host: string; port: number }): Promise<string>
  /** Refuses new requests, waits for those under way, and closes. `draining` is called when clients are told to leave. */
  close(draining?: () => void): Promise<void>
}

const timeoutsDefault: Timeouts = { headersMs: 10_000, requestMs: 30_000, stalledMs: 120_000 }
/** How often the server looks for clients that take too long. */
const checkEveryMs = 1_000
const idleTimeoutMs = 65_000
/** Room for eight of the largest bodies. */
const bodyBytesMaxDefault = 256 * 2 ** 20
/** A request may be under way over the network when the server is told to stop; this is longer than it takes between continents. */
const lingerMsDefault = 500

/** Serves routes over HTTP. It does not know what the routes do. */
export function createServer(options: ServerOptions): Server {
  const { routes, keys, log } = options
  const { headersMs, requestMs, stalledMs } = options.timeouts ?? timeoutsDefault
  const gate = new Gate(keys)
  const requests = new RequestsUnderWay(options.bodyBytesMax ?? bodyBytesMaxDefault)
  const refuse: RefuseConnection = (socket, error) => requests.refuse(socket, error)
  const app = Fastify({
    logger: false,
    requestTimeout: requestMs,
    // Also ends connections whose client does not read its answer.
    connectionTimeout: stalledMs,
    keepAliveTimeout: idleTimeoutMs,
    exposeHeadRoutes: false,
    genReqId: requestIdOf,
    forceCloseConnections: 'idle',
    // While the server closes, requests on open connections are still served.
    return503OnClosing: false,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 600 },
    http: {
      headersTimeout: headersMs,
      connectionsCheckingInterval: Math.min(checkEveryMs, headersMs),
      requireHostHeader: false,
    },
    clientErrorHandler: (error, socket) => refuseBrokenRequest(error, socket, refuse),
    frameworkErrors: (error, request, reply) => sendProblem(error, request, reply as FastifyReply, log),
  })
  const missing = (request: FastifyRequest) =>
    missingRoute(routes, { method: request.method, path: pathOf(request) })
  answerOddRequests(app.server, refuse)
  const expectations = new Expectations(app.server)
  // Bodies are read as bytes; each route says how to parse them.
  app.removeAllContentTypeParsers()
  const limits = new WeakMap<FastifyRequest, number>()
  app.addContentTypeParser('*', async (request: FastifyRequest, body: IncomingMessage) => {
    const bytesMax = limits.get(request)
    if (bytesMax === undefined) return undefined
    return readBytes(body, {
      bytesMax,
      begin: () => expectations.meet(body),
      hold: (bytes) => requests.hold(request.raw, bytes),
    })
  })
  app.addHook('onRequest', async (request, reply) => {
    confirmAnswers(request.raw.socket)
    if (!requests.begin(request.raw, reply.raw)) return reply.hijack()
    checkHost(request.raw)
    // Fastify would complain of the content type before it finds that there is no route.
    if (request.is404 && request.method === 'QUERY') throw missing(request)
    return undefined
  })
  app.addHook('onSend', (request, reply, _body, done) => {
    if (requests.endsConnection(request.raw) || expectations.isOpen(request.raw))
      void reply.header('connection', 'close')
    // Fastify would close a connection after the first request that arrives while the server closes, and drop those behind it.
    else if (reply.raw.hasHeader('connection')) reply.raw.removeHeader('connection')
    done()
  })
  app.addHook('onResponse', async (request, reply) => tellFinished(request, reply, options))
  app.setErrorHandler((error, request, reply) => sendProblem(error, request, reply, log))
  app.setNotFoundHandler((request, reply) => sendProblem(missing(request), request, reply, log))
  for (const route of routes) addRoute(app, route, { methods: methodsOf(route, routes), gate, log, limits })
  reserveNamedPaths(app, routes)
  return {
    app,
    listen: ({ host, port }) => app.listen({ host, port }),
    async close(draining) {
      const { closed, closeIdle } = stopListening(app, () => {
        requests.drain()
        draining?.()
      })
      await untilClosed(closed, options.lingerMs ?? lingerMsDefault)
      closeIdle()
      await requests.over()
      // The remaining connections have no request, and would delay the close until they time out.
      app.server.closeAllConnections()
      await closed
    },
  }
}

/**
 * Node closes idle connections as soon as it stops listening, and loses requests that are on their way. Here idle connections are
 * closed later. From the moment the server stops listening, clients are told to leave, since none of them can come back.
 */
function stopListening(
  app: FastifyInstance,
  stopped: () => void,
): { closed: Promise<void>; closeIdle: () => void } {
  const { server } = app
  const closeIdle = server.closeIdleConnections.bind(server)
  server.closeIdleConnections = stopped
  return { closed: app.close(), closeIdle }
}

/** Waits until the server is closed, at most this long. */
async function untilClosed(closed: Promise<void>, ms: number): Promise<void> {
  const over = new AbortController()
  const waited = delay(ms, undefined, { signal: over.signal }).catch(() => undefined)
  await Promise.race([closed, waited]).finally(() => over.abort())
}

interface RouteParts {
  readonly methods: Route['method'][]
  readonly gate: Gate
  readonly log: Logger
  readonly limits: WeakMap<FastifyRequest, number>
}

function addRoute(app: FastifyInstance, route: Route, { methods, gate, log, limits }: RouteParts): void {
  const callers = new WeakMap<FastifyRequest, Caller>()
  const { scope } = route
  app.route({
    method: methods,
    url: route.path.replace(/\{(\w+)\}/g, ':$1'),
    onRequest: async (request, reply) => {
      void reply.header('x-request-id', request.id)
      if (route.body !== undefined) refuseCodings(request.headers)
      limits.set(request, bytesMaxOf(route, request.headers['content-type']))
      if (scope !== null) callers.set(request, await gate.enter(request, reply, scope))
    },
    handler: async (request, reply) => {
      const caller = callers.get(request) ?? { id: '', name: 'anybody', remote: '' }
      // Few routes ask whether their client is still connected, so the signal is made on demand.
      let left: AbortSignal | undefined
      const stillAllowed = async () => {
        if (scope !== null) await gate.recheck(request, reply, scope)
      }
      const answer = await route.handle({
        stillAllowed,
        ...readRequest(route, request),
        caller,
        request,
        get signal() {
          left ??= hangUpOf(request.raw, reply.raw)
          return left
        },
      })
      send(reply, answer, left, log)
      return reply
    },
  })
}

function tellFinished(request: FastifyRequest, reply: FastifyReply, { log, observe }: ServerOptions): void {
  const { method, id, routeOptions } = request
  const route = request.is404 ? null : (routeOptions.url ?? '').replace(/:(\w+)/g, '{$1}')
  const finished = { method, route, status: reply.statusCode, ms: reply.elapsedTime }
  observe?.(finished)
  log.debug({ requestId: id, ...finished, ms: Math.round(finished.ms) }, 'Request')
}

function send(reply: FastifyReply, answer: Answer, left: AbortSignal | undefined, log: Logger): void {
  const { status, json, text, contentType, headers, undelivered } = answer
  if (undelivered !== undefined && left !== undefined) {
    const tell = () =>
      void undelivered().catch((error: unknown) =>
        log.error({ err: error }, 'Handing back leases failed: they end when their time is over'),
      )
    if (left.aborted) tell()
    else left.addEventListener('abort', tell, { once: true })
  }
  void reply.code(status)
  if (headers !== undefined) void reply.headers(headers)
  if (text !== undefined) void reply.type(contentType ?? 'application/json; charset=utf-8').send(text)
  else if (json !== undefined) void reply.type('application/json; charset=utf-8').send(JSON.stringify(json))
  else void reply.send()
}

function sendProblem(error: unknown, request: FastifyRequest, reply: FastifyReply, log: Logger): void {
  const problem = toProblem(error, request.id)
  const { status } = problem
  const seconds = retryAfterSeconds(problem)
  if (seconds !== undefined) void reply.header('retry-after', String(seconds))
  if (problem.code === 'queue_full') void reply.header('posthorn-backpressure', String(problem.queue))
  if (problem.code === 'internal')
    log.error({ err: withoutRows(error), requestId: request.id, url: pathOf(request) }, 'Request failed')
  else if (status >= 500)
    log.warn(
      { code: problem.code, reason: reasonOf(error), requestId: request.id, url: pathOf(request) },
      'Request failed',
    )
  else
    log.debug({ requestId: request.id, url: pathOf(request), status, code: problem.code }, 'Request refused')
  // Fastify would close the connection, and a client that still sends would get an error instead of this answer. So the rest of
  // the body is discarded, for as long as a request may take.
  if (problem.code === 'body_too_large' || problem.code === 'overloaded')
    void reply.removeHeader('connection')
  if (error instanceof PosthornError && error.code === 'METHOD_NOT_ALLOWED') {
    void reply.header('allow', String(error.details.allowed))
  }
  void reply.header('x-request-id', request.id).code(status).type(problemType).send(JSON.stringify(problem))
}

/** The reason without a stack: when the database is away or busy, many requests fail alike, and the stack says nothing. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error instanceof PosthornError &&
    error.cause instanceof Error &&
    !error.message.includes(error.cause.message)
    ? `${error.message} (${error.cause.message})`
    : error.message
}

/** Removes `detail` and `where`, in which PostgreSQL quotes rows and input: they may hold payloads. */
function withoutRows(error: unknown): unknown {
  if (!(error instanceof Error) || !('detail' in error || 'where' in error)) return error
  const { name: type, message, stack } = error
  return { type, message, stack, code: (error as { code?: unknown }).code }
}

/** Logs have only paths, since queries may hold what people search for. */
function pathOf({ url }: FastifyRequest): string {
  return url.split('?', 1)[0] ?? url
}
