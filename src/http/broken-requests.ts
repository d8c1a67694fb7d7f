import { type IncomingMessage, type Server, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { PosthornError } from '../errors.ts'
import { problemType, retryAfterSeconds, toProblem } from './problem.ts'
import { newRequestId } from './request-id.ts'

/** What Node reads of a request before its body. */
const headBytesMax = 16_384
/** How long a client has to read why it was refused. */
const partingMs = 1_000

/** Ends the connection of a request that is no HTTP, or came too slowly. */
export function refuseBrokenRequest(
  error: Error & { code?: string },
  socket: Socket,
  refuse: RefuseConnection,
): void {
  if (error.code === 'ECONNRESET' || (!socket.writable && !refused.has(socket))) socket.destroy()
  else refuse(socket, toRefusal(error.code))
}

/** Ends a connection with an error, as soon as nothing that came before waits for its answer. */
export type RefuseConnection = (socket: Socket, error: PosthornError) => void

/** What still comes is thrown away unread, so that it costs nothing. */
export function ignoreInput(socket: Socket): void {
  // Node hands on what it reads to its parser unless somebody else wants it.
  socket.on('data', () => undefined)
  socket.removeAllListeners('data')
  socket.resume()
  // Node takes the end for a parser's error, since the parser was left in the middle of a request, and does not close.
  socket.once('end', () => socket.end())
}

/** Takes care of what Node would answer by itself, with no word of why or not at all. */
export function answerOddRequests(server: Server, refuse: RefuseConnection): void {
  // RFC 9110 lets a server pass over what it is expected to do and does not know.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  server.on('connect', ({ socket }) => {
    // Node has taken its own error listener off this socket. Without another one, a reset would end the process.
    socket.on('error', () => socket.destroy())
    refuse(socket, new PosthornError('BAD_REQUEST', { reason: 'this is no proxy' }))
  })
}

/** A request that says twice whom it is for, or not at all, may be read by others in another way. */
export function checkHost({ httpVersion, rawHeaders }: { httpVersion: string; rawHeaders: string[] }): void {
  let hosts = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.length === 4 && rawHeaders[at]?.toLowerCase() === 'host') hosts++
  }
  if (hosts === 1 || (hosts === 0 && httpVersion === '1.0')) return
  throw new PosthornError('BAD_REQUEST', { reason: hosts === 0 ? 'it has no Host' : 'it has several Hosts' })
}

/** Of a body in another coding besides we would take the coded bytes for what was meant. Undefined: there is none. */
export function unknownCoding({ headers }: IncomingMessage): PosthornError | undefined {
  const coding = headers['transfer-encoding']
  if (coding === undefined || coding.trim().toLowerCase() === 'chunked') return undefined
  const reason = `its Transfer-Encoding is ${coding.slice(0, 100)}, and only chunked is known here`
  return new PosthornError('BAD_REQUEST', { reason })
}

const refused = new WeakSet<Socket>()

function toRefusal(code: string | undefined): PosthornError {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return new PosthornError('REQUEST_TIMEOUT')
  if (code === 'HPE_HEADER_OVERFLOW') return new PosthornError('HEAD_TOO_LARGE', { bytesMax: headBytesMax })
  return new PosthornError('BAD_REQUEST', { reason: 'it is not HTTP' })
}

/** Answers a connection once and for all. To cut at once could take the answer back: RFC 9112, 9.6. */
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
