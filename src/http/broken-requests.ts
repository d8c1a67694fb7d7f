import { type Server, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { PosthornError } from '../errors.ts'
import { problemType, toProblem } from './problem.ts'
import { newRequestId } from './request-id.ts'

/** What Node reads of a request before its body. */
const headBytesMax = 16_384
/** How long a client has to read why it was refused. */
const partingMs = 1_000

/** What is no HTTP, or came too slowly, is answered once and cut. */
export function refuseBrokenRequest(error: Error & { code?: string }, socket: Duplex): void {
  // What still comes is thrown away. To cut at once could take the answer back: RFC 9112, 9.6.
  if (refused.has(socket)) return
  if (error.code === 'ECONNRESET' || !socket.writable) socket.destroy()
  else refuse(socket, toRefusal(error.code))
}

/** Takes care of what Node would answer by itself, with no word of why or not at all. */
export function answerOddRequests(server: Server): void {
  // RFC 9110 lets a server pass over what it is expected to do and does not know.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  server.on('connect', (_request, socket) => {
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

const refused = new WeakSet<Duplex>()

function toRefusal(code: string | undefined): PosthornError {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return new PosthornError('REQUEST_TIMEOUT')
  if (code === 'HPE_HEADER_OVERFLOW') return new PosthornError('HEAD_TOO_LARGE', { bytesMax: headBytesMax })
  return new PosthornError('BAD_REQUEST', { reason: 'it is not HTTP' })
}

function refuse(socket: Duplex, error: PosthornError): void {
  const requestId = newRequestId()
  const problem = toProblem(error, requestId)
  const body = JSON.stringify(problem)
  refused.add(socket)
  socket.end(
    `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}\r\nconnection: close\r\nx-request-id: ${requestId}\r\n` +
      `content-type: ${problemType}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  )
  const cut = setTimeout(() => socket.destroy(), partingMs)
  socket.once('close', () => clearTimeout(cut))
}
