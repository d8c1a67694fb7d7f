import { type IncomingMessage, type Server, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { PosthornError } from '../errors.ts'
import { problemType, retryAfterSeconds, toProblem } from './problem.ts'
import { newRequestId } from './request-id.ts'

/** The longest head of a request that Node reads. */
const headBytesMax = 16_384
/** How long a client has to read why it was refused. */
const partingMs = 1_000

/** Ends the connection of a request that is not HTTP, or that came too slowly. */
export function refuseBrokenRequest(
  error: Error & { code?: string },
  socket: Socket,
  refuse: RefuseConnection,
): void {
  if (error.code === 'ECONNRESET' || (!socket.writable && !refused.has(socket))) socket.destroy()
  else refuse(socket, toRefusal(error.code))
}

/** Ends a connection with an error, after the answers to earlier requests. */
export type RefuseConnection = (socket: Socket, error: PosthornError) => void

/** Discards further input unread, so that it costs nothing. */
export function ignoreInput(socket: Socket): void {
  // Node hands input to its parser unless there is another listener.
  socket.on('data', () => undefined)
  socket.removeAllListeners('data')
  socket.resume()
  // The parser was left in the middle of a request, so Node takes the end for a parser error and does not close.
  socket.once('end', () => socket.end())
}

/** Handles requests that Node would answer itself without a reason, or not at all. */
export function answerOddRequests(server: Server, refuse: RefuseConnection): void {
  // RFC 9110 lets a server ignore an expectation that it does not know.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  server.on('connect', ({ socket }) => {
    // Node has removed its own error listener from this socket. Without another one, a reset would end the process.
    socket.on('error', () => socket.destroy())
    refuse(socket, new PosthornError('BAD_REQUEST', { reason: 'this server is not a proxy' }))
  })
}

/** A request with no Host, or with several, may be understood differently by proxies. */
export function checkHost({ httpVersion, rawHeaders }: { httpVersion: string; rawHeaders: string[] }): void {
  let hosts = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.length === 4 && rawHeaders[at]?.toLowerCase() === 'host') hosts++
  }
  if (hosts === 1 || (hosts === 0 && httpVersion === '1.0')) return
  throw new PosthornError('BAD_REQUEST', {
    reason: hosts === 0 ? 'it has no Host header' : 'it has several Host headers',
  })
}

/** The error for a Transfer-Encoding that would be misread; undefined if there is none. */
export function unknownCoding({ headers }: IncomingMessage): PosthornError | undefined {
  const coding = headers['transfer-encoding']
  if (coding === undefined || coding.trim().toLowerCase() === 'chunked') return undefined
  const reason = `its Transfer-Encoding is ${coding.slice(0, 100)}, and this server knows only chunked`
  return new PosthornError('BAD_REQUEST', { reason })
}

const refused = new WeakSet<Socket>()

function toRefusal(code: string | undefined): PosthornError {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return new PosthornError('REQUEST_TIMEOUT')
  if (code === 'HPE_HEADER_OVERFLOW') return new PosthornError('HEAD_TOO_LARGE', { bytesMax: headBytesMax })
  return new PosthornError('BAD_REQUEST', { reason: 'it is not HTTP' })
}

/** Sends the last answer of a connection. Closing at once could destroy the answer: RFC 9112, 9.6. */
export function refuseConnection(socket: Socket, error: PosthornError): void {
  const requestId = newRequestId()
  const problem = toProblem(error, requestId)
  const body = JSON.stringify(problem)
  const seconds = retryAfterSeconds(problem)
  const retryAfter = seconds === undefined ? '' : `retry-after: ${seconds}\r\n`
  refused.add(socket)
  socket.end(
    `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}\r\nconnection: close\r\nx-request-id: ${requestId}\r\n` +
      `${retryAfter}content-type: ${problemType}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  )
  const cut = setTimeout(() => socket.destroy(), partingMs)
  socket.once('close', () => clearTimeout(cut))
}
