import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach } from 'vitest'

export interface FakeRequest {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: IncomingMessage['headers']
  readonly body: string
  /** Resolves when the client has hung up before it was answered. */
  readonly gone: Promise<void>
}

export interface FakeAnswer {
  readonly status?: number
  readonly headers?: Record<string, string>
  /** Text goes as it is, anything else as JSON. */
  readonly body?: unknown
  /** The head of the answer goes at once, the body after this. */
  readonly bodyAfter?: Promise<void>
}

/** `hang up` closes the connection without an answer. */
export type Respond = (request: FakeRequest) => FakeAnswer | 'hang up' | Promise<FakeAnswer | 'hang up'>

export interface FakeServer {
  readonly url: string
  readonly requests: FakeRequest[]
  close(): Promise<void>
}

/** Servers that answer as a test says, closed after it. */
export function useFakeServers(): (respond: Respond) => Promise<FakeServer> {
  const opened: FakeServer[] = []
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((server) => server.close()))
  })
  return async (respond) => {
    const server = await startFakeServer(respond)
    opened.push(server)
    return server
  }
}

async function startFakeServer(respond: Respond): Promise<FakeServer> {
  const requests: FakeRequest[] = []
  const server = createServer((request, response) => void answer(request, response))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    async close() {
      server.close()
      server.closeAllConnections()
      if (server.listening) await once(server, 'close')
    },
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const told = await readRequest(request, response)
    requests.push(told)
    const given = await respond(told)
    if (given === 'hang up') {
      request.socket.destroy()
      return
    }
    const { status = 200, headers = {}, body, bodyAfter } = given
    response.writeHead(status, { 'content-type': 'application/json', ...headers })
    if (bodyAfter !== undefined) response.flushHeaders()
    await bodyAfter
    response.end(body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body))
  }
}

async function readRequest(request: IncomingMessage, response: ServerResponse): Promise<FakeRequest> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://fake')
  return {
    method: request.method ?? '',
    path: pathname,
    query: searchParams,
    headers: request.headers,
    body: Buffer.concat(chunks).toString(),
    gone: new Promise((resolve) => {
      response.on('close', () => {
        if (!response.writableFinished) resolve()
      })
    }),
  }
}
