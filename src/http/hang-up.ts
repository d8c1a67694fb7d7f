import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Aborted when the client has gone before its answer was sent, or resets its connection soon after, before another request. */
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
    if (isSent && socket.errored === null) line.unconfirmed.set(left, performance.now())
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
   * Those whose answer was sent since the last request came, and when: no more than a connection may have unanswered. The
   * answer may still be in the kernel's buffers, which a client that closes without reading refuses by a reset.
   */
  readonly unconfirmed: Map<AbortController, number>
}

/** A reset later than this says nothing of the answer: a proxy resets connections that have been idle for long. */
const confirmedMs = 10_000

/** How often, and how long each time apart, a client that has ended its side is asked whether it is still there. */
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
  // An answer that waits behind another one is not told when its connection closes: many requests may come at once.
  socket.once('close', (hadError) => {
    for (const left of line.unanswered) left.abort()
    line.unanswered.clear()
    if (hadError) refuse(line)
    line.unconfirmed.clear()
  })
  return line
}

/**
 * Node destroys a connection that is not kept as soon as the kernel has its last answer, and the kernel then tells nobody
 * that the client has refused it. So only our side is ended, and the client may still close its own, or reset.
 */
function endAndListen(socket: Socket): void {
  socket.end()
  const cut = setTimeout(() => socket.destroy(), confirmedMs)
  socket.once('close', () => clearTimeout(cut))
}

/**
 * The client has ended its side, and may go without having read its answer. Node would end our side as well, and then nobody
 * hears of it: so the client is asked for a moment whether it is still there.
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
 * The end of a connection is seen when the event loop next looks. An answer that was sent meanwhile was sent to nobody:
 * the other side has refused it by now, and says so to the next write, which may be empty. Whoever reads its answer and
 * then closes refuses nothing.
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
