import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { PosthornError } from '../errors.ts'

/**
 * Knows when a server has answered everything it was asked, and how much of that it holds in memory. A connection that
 * closes tells the answer that is being written and none of those behind it, so connections are listened to as well.
 */
export class RequestsUnderWay {
  readonly #bySocket = new WeakMap<Socket, Map<IncomingMessage, number>>()
  readonly #bytesMax: number
  #count = 0
  #bytes = 0
  #tell: () => void = () => undefined

  constructor(server: Server, bytesMax: number) {
    this.#bytesMax = bytesMax
    server.on('request', (request, response) => this.#begin(request, response))
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
    const unanswered = this.#bySocket.get(request.socket)
    const held = unanswered?.get(request)
    if (held === undefined) return
    unanswered?.set(request, held + bytes)
    this.#bytes += bytes
  }

  #begin(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request
    const known = this.#bySocket.get(socket)
    const unanswered = known ?? new Map<IncomingMessage, number>()
    unanswered.set(request, 0)
    this.#count++
    response.once('close', () => this.#end(unanswered, [request]))
    if (known !== undefined) return
    this.#bySocket.set(socket, unanswered)
    socket.once('close', () => this.#end(unanswered, [...unanswered.keys()]))
  }

  #end(unanswered: Map<IncomingMessage, number>, ended: readonly IncomingMessage[]): void {
    for (const request of ended) {
      const bytes = unanswered.get(request)
      if (bytes === undefined) continue
      unanswered.delete(request)
      this.#bytes -= bytes
      this.#count--
    }
    this.#check()
  }

  #check(): void {
    if (this.#count === 0) this.#tell()
  }
}
