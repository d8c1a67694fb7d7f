import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { PosthornError } from '../errors.ts'
import { ignoreInput, refuseConnection, unknownCoding } from './broken-requests.ts'

/** As many as HTTP/2 advises for one connection. */
const perConnectionMax = 100

interface UnderWay {
  readonly response: ServerResponse
  /** What is held of its body. */
  bytes: number
}

interface Connection {
  /** In the order in which they came, which is the order of their answers. */
  readonly unanswered: Map<IncomingMessage, UnderWay>
  newest: IncomingMessage | undefined
  /** It has been told that it will be closed, so that nothing which still comes is worked on. */
  isEnding: boolean
  /** What it is told last, once all that came before is answered. */
  refusal: PosthornError | undefined
}

/**
 * Knows what a server has not answered yet, on each connection and in all, and how much of that it holds in memory. A
 * connection that closes tells the answer that is being written and none of those behind it, so connections are listened
 * to as well.
 */
export class RequestsUnderWay {
  readonly #connections = new WeakMap<Socket, Connection>()
  readonly #bytesMax: number
  #count = 0
  #bytes = 0
  #isDraining = false
  #tell: () => void = () => undefined

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** False: it must not be worked on, and is not answered. */
  begin(request: IncomingMessage, response: ServerResponse): boolean {
    const connection = this.#connectionOf(request.socket)
    const { unanswered } = connection
    const error = unanswered.size === perConnectionMax ? pipelineFull() : unknownCoding(request)
    if (error !== undefined) this.refuse(request.socket, error)
    if (connection.isEnding) return false
    unanswered.set(request, { response, bytes: 0 })
    connection.newest = request
    this.#count++
    response.once('close', () => {
      this.#end(unanswered, [request])
      part(request.socket, connection)
    })
    return true
  }

  /** Ends a connection with an error. What came before is answered first, and what still comes is not read. */
  refuse(socket: Socket, error: PosthornError): void {
    const connection = this.#connectionOf(socket)
    if (connection.isEnding) return
    connection.isEnding = true
    connection.refusal = error
    ignoreInput(socket)
    part(socket, connection)
  }

  /** From now on the last answer of each connection ends it. */
  drain(): void {
    this.#isDraining = true
  }

  /** Called as a request is answered: whether its answer is the last one on its connection. */
  endsConnection(request: IncomingMessage): boolean {
    const connection = this.#connectionOf(request.socket)
    if (!this.#isDraining || connection.newest !== request) return false
    connection.isEnding = true
    return true
  }

  /** Resolves when none is under way. */
  over(): Promise<void> {
    return new Promise((resolve) => {
      this.#tell = resolve
      this.#check()
    })
  }

  /** Makes room for so much more of a request's body, until it is answered. Throws where there is none. */
  hold(request: IncomingMessage, bytes: number): void {
    if (this.#bytes + bytes > this.#bytesMax) {
      throw new PosthornError('OVERLOADED', { bytesMax: this.#bytesMax })
    }
    const held = this.#connections.get(request.socket)?.unanswered.get(request)
    if (held === undefined) return
    held.bytes += bytes
    this.#bytes += bytes
  }

  #connectionOf(socket: Socket): Connection {
    const known = this.#connections.get(socket)
    if (known !== undefined) return known
    const unanswered: Connection['unanswered'] = new Map()
    const connection = { unanswered, newest: undefined, isEnding: false, refusal: undefined }
    this.#connections.set(socket, connection)
    socket.once('close', () => this.#end(unanswered, [...unanswered.keys()]))
    return connection
  }

  #end(unanswered: Connection['unanswered'], ended: readonly IncomingMessage[]): void {
    for (const request of ended) {
      const held = unanswered.get(request)
      if (held === undefined) continue
      unanswered.delete(request)
      this.#bytes -= held.bytes
      this.#count--
    }
    this.#check()
  }

  #check(): void {
    if (this.#count === 0) this.#tell()
  }
}

function pipelineFull(): PosthornError {
  return new PosthornError('PIPELINE_FULL', { requestsMax: perConnectionMax, retryAfterSeconds: 1 })
}

/** Refuses a connection for good, unless it still waits for an answer. A request whose body broke off is not answered otherwise. */
function part(socket: Socket, connection: Connection): void {
  const { refusal, unanswered } = connection
  if (refusal === undefined || !socket.writable) return
  for (const [request, { response }] of unanswered) if (request.complete || response.headersSent) return
  connection.refusal = undefined
  refuseConnection(socket, refusal)
}
