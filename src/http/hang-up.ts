import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Aborted when the client has gone before its answer was sent, or its connection is reset before it sends another request. */
export function hangUpOf({ socket }: IncomingMessage, response: ServerResponse): AbortSignal {
  const left = new AbortController()
  const line = lineOf(socket)
  line.unanswered.add(left)
  // A response also says that it has finished when its last write has failed. Where the client had ended its side before, the
  // socket only has its error by then and is destroyed later. Node destroys the socket of an answer that was sent only after
  // this, so the socket is asked first of all.
  let isSent = false
  response.prependOnceListener('finish', () => {
    isSent = !socket.destroyed && socket.errored === null
  })
  response.once('close', () => {
    line.unanswered.delete(left)
    if (isSent && socket.errored === null) line.unconfirmed.add(left)
    else left.abort()
  })
  // A socket that closed while the request waited, for its key say, emits none of these events any more.
  if (socket.destroyed) left.abort()
  return left.signal
}

/** Whoever sends another request has read what came before it. */
export function confirmAnswers(socket: Socket): void {
  lines.get(socket)?.unconfirmed.clear()
}

interface Line {
  readonly unanswered: Set<AbortController>
  /**
   * Those whose answer was sent since the last request came, so no more than a connection may have unanswered. The answer
   * may still be in the kernel's buffers, which a client that closes without reading refuses by a reset.
   */
  readonly unconfirmed: Set<AbortController>
}

const lines = new WeakMap<Socket, Line>()

function lineOf(socket: Socket): Line {
  const known = lines.get(socket)
  if (known !== undefined) return known
  const line: Line = { unanswered: new Set(), unconfirmed: new Set() }
  lines.set(socket, line)
  socket.prependListener('end', () => probe(socket, line))
  // An answer that waits behind another one is not told when its connection closes: many requests may come at once.
  socket.once('close', (hadError) => {
    abortAll(line.unanswered)
    if (hadError) abortAll(line.unconfirmed)
    line.unconfirmed.clear()
  })
  return line
}

/**
 * The end of a connection is seen when the event loop next looks. An answer that was sent meanwhile was sent to nobody:
 * the other side has refused it by now, and says so to the next write, which may be empty. Whoever reads its answer and
 * then closes refuses nothing.
 */
function probe(socket: Socket, { unconfirmed }: Line): void {
  if (unconfirmed.size === 0 || !socket.writable) return
  socket.write('', (error) => {
    if (error != null && 'code' in error && (error.code === 'EPIPE' || error.code === 'ECONNRESET')) {
      abortAll(unconfirmed)
    }
  })
}

function abortAll(controllers: Set<AbortController>): void {
  for (const left of controllers) left.abort()
  controllers.clear()
}
