import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Aborted if the client disconnects before its answer is sent, or resets the connection soon after it, before another request. */
export function hangUpOf({ socket }: IncomingMessage, response: ServerResponse): AbortSignal {
  const left = new AbortController()
  const line = lineOf(socket)
  line.unanswered.add(left)
  // A response also emits `finish` if its last write has failed. If the client had ended its side before, the socket has its
  // error by then and is destroyed later. After a success Node destroys the socket only after this event, so this listener is
  // the first and asks the socket.
  let isSent = false
  response.prependOnceListener('finish', () => {
    isSent = !socket.destroyed && socket.errored === null
  })
  response.once('close', () => {
    line.unanswered.delete(left)
    if (isSent && socket.errored === null) line.unconfirmed.set(left, performance.now())
    else left.abort()
  })
  // A socket that closed earlier, for example while the key was checked, emits none of these events.
  if (socket.destroyed) left.abort()
  return left.signal
}

/** A client that sends another request has read the answers before it. */
export function confirmAnswers(socket: Socket): void {
  lines.get(socket)?.unconfirmed.clear()
}

interface Line {
  readonly unanswered: Set<AbortController>
  /**
   * Answers sent since the last request came, and when; never more than a connection may have unanswered. Such an answer may
   * still be in the kernel's buffers; a client that closes without reading it resets the connection.
   */
  readonly unconfirmed: Map<AbortController, number>
}

/** A later reset says nothing about the answer: proxies reset connections that have been idle for long. */
const confirmedMs = 10_000

/** How often, and at what interval, the server probes a client that has ended its side. */
const probesMax = 10
const probeEveryMs = 100

const lines = new WeakMap<Socket, Line>()

function lineOf(socket: Socket): Line {
  const known = lines.get(socket)
  if (known !== undefined) return known
  const line: Line = { unanswered: new Set(), unconfirmed: new Map() }
  lines.set(socket, line)
  socket.destroySoon = () => endAndListen(socket)
  socket.prependListener('end', () => {
    probe(socket, line)
    if (line.unconfirmed.size > 0 && socket.writable) endLater(socket, line)
  })
  // Node does not tell an answer that is queued behind another one when its connection closes.
  socket.once('close', (hadError) => {
    for (const left of line.unanswered) left.abort()
    line.unanswered.clear()
    if (hadError) refuse(line)
    line.unconfirmed.clear()
  })
  return line
}

/**
 * Node destroys a connection that is not kept alive as soon as the kernel has its last answer, and then nobody learns whether
 * the client refused the answer. So only our side is ended; the client may still close its side, or reset.
 */
function endAndListen(socket: Socket): void {
  socket.end()
  const cut = setTimeout(() => socket.destroy(), confirmedMs)
  socket.once('close', () => clearTimeout(cut))
}

/**
 * The client has ended its side, and may leave without reading its answer. Node would end our side too, and then a reset could
 * not be seen: so the server probes the client for a moment first.
 */
function endLater(socket: Socket, line: Line): void {
  const { end } = socket
  socket.end = () => socket
  let probesLeft = probesMax
  const asking = setInterval(() => {
    probe(socket, line)
    if (probesLeft-- > 0) return
    clearInterval(asking)
    socket.end = end
    socket.end()
  }, probeEveryMs)
  socket.once('close', () => clearInterval(asking))
}

/**
 * The event loop sees the end of a connection late, and an answer may have been sent in between. A client that is gone refuses
 * such an answer, which shows at the next write, even an empty one. A client that reads its answer and then closes refuses nothing.
 */
function probe(socket: Socket, line: Line): void {
  if (line.unconfirmed.size === 0 || !socket.writable) return
  socket.write('', (error) => {
    if (error != null && 'code' in error && (error.code === 'EPIPE' || error.code === 'ECONNRESET')) {
      refuse(line)
    }
  })
}

function refuse({ unconfirmed }: Line): void {
  const now = performance.now()
  for (const [left, sentAt] of unconfirmed) if (now - sentAt <= confirmedMs) left.abort()
  unconfirmed.clear()
}
