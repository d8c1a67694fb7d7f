import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/**
 * Knows when a server has answered everything it was asked. A connection that closes tells the answer that is being
 * written and none of those behind it, so connections are listened to as well.
 */
export class RequestsUnderWay {
  readonly #bySocket = new WeakMap<Socket, Set<ServerResponse>>()
  #count = 0
  #tell: () => void = () => undefined

  constructor(server: Server) {
    server.on('request', (request, response) => this.#begin(request, response))
  }

  /** Resolves when none is under way. */
  over(): Promise<void> {
    return new Promise((resolve) => {
      this.#tell = resolve
      this.#check()
    })
  }

  #begin({ socket }: IncomingMessage, response: ServerResponse): void {
    const known = this.#bySocket.get(socket)
    const unanswered = known ?? new Set()
    unanswered.add(response)
    this.#count++
    response.once('close', () => this.#end(unanswered, [response]))
    if (known !== undefined) return
    this.#bySocket.set(socket, unanswered)
    socket.once('close', () => this.#end(unanswered, [...unanswered]))
  }

  #end(unanswered: Set<ServerResponse>, ended: readonly ServerResponse[]): void {
    for (const response of ended) if (unanswered.delete(response)) this.#count--
    this.#check()
  }

  #check(): void {
    if (this.#count === 0) this.#tell()
  }
}
