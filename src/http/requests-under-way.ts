import type { Server } from 'node:http'
import type { Socket } from 'node:net'

/** Knows when a server has answered everything it was asked. */
export class RequestsUnderWay {
  /** How many, by the connection they came on. */
  readonly #counts = new Map<Socket, number>()
  #tell: () => void = () => undefined

  constructor(server: Server) {
    // An answer that waits behind another one is not told when its connection closes: many requests may come at once.
    server.on('connection', (socket) => socket.once('close', () => this.#set(socket, 0)))
    server.on('request', ({ socket }, response) => {
      this.#set(socket, (this.#counts.get(socket) ?? 0) + 1)
      response.once('close', () => this.#set(socket, (this.#counts.get(socket) ?? 1) - 1))
    })
  }

  /** Resolves when none is under way. */
  over(): Promise<void> {
    return new Promise((resolve) => {
      this.#tell = resolve
      if (this.#counts.size === 0) resolve()
    })
  }

  #set(socket: Socket, count: number): void {
    if (count > 0 && !socket.destroyed) this.#counts.set(socket, count)
    else this.#counts.delete(socket)
    if (this.#counts.size === 0) this.#tell()
  }
}
