import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { PosthornError } from '../errors.ts'
import { ignoreInput, refuseConnection, unknownCoding } from './broken-requests.ts'

/** The number of streams that HTTP/2 recommends for one connection. */
const perConnectionMax = 100

interface UnderWay {
  readonly response: ServerResponse
  /** How many bytes of its body are in memory. */
  bytes: number
}

interface Connection {
  /** In the order of their arrival, which is the order of their answers. */
  readonly unanswered: Map<IncomingMessage, UnderWay>
  newest: IncomingMessage | undefined
  /** The client knows that the connection will close, so requests that still arrive are not worked on. */
  isEnding: boolean
  /** The last answer of the connection, sent once all earlier requests are answered. */
  refusal: PosthornError | undefined
}

/**
 * Knows the requests that the server has not answered yet, and how many bytes of their bodies are in memory. When a connection
 * closes, Node tells only the answer that is being written, not those queued behind it, so this class listens to connections too.
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

  /** False: the request must be neither worked on nor answered. */
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

  /** Ends a connection with an error, after the answers to earlier requests. Further input is not read. */
  refuse(socket: Socket, error: PosthornError): void {
    const connection = this.#connectionOf(socket)
    if (connection.isEnding) return
    connection.isEnding = true
    connection.refusal = error
    ignoreInput(socket)
    part(socket, connection)
  }

  /** From now on the last answer of each connection closes it. */
  drain(): void {
    this.#isDraining = true
  }

  /** Whether the answer to this request is the last on its connection. Called when the answer is sent. */
  endsConnection(request: IncomingMessage): boolean {
    const connection = this.#connectionOf(request.socket)
    if (!this.#isDraining || connection.newest !== request) return false
    connection.isEnding = true
    return true
  }

  /** Resolves when no request is under way. */
  over(): Promise<void> {
    return new Promise((resolve) => {
      this.#tell = resolve
      this.#check()
    })
  }

  /** Reserves memory for part of a body until the request is answered. Throws if there is not enough. */
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

/** Sends the refusal once no earlier answer is due. A request whose body broke off gets no other answer. */
function part(socket: Socket, connection: Connection): void {
  const { refusal, unanswered } = connection
  if (refusal === undefined || !socket.writable) return
  for (const [request, { response }] of unanswered) if (request.complete || response.headersSent) return
  connection.refusal = undefined
  refuseConnection(socket, refusal)
}
