import type { IncomingMessage, Server, ServerResponse } from 'node:http'

/**
 * Clients that send `Expect: 100-continue` wait until the server asks for their body. Node would ask at once; here the server asks
 * when it is about to read the body, so that a request that is refused earlier need not send one.
 */
export class Expectations {
  readonly #open = new WeakMap<IncomingMessage, ServerResponse>()

  constructor(server: Server) {
    server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
      this.#open.set(request, response)
      server.emit('request', request, response)
    })
  }

  /** Asks for the body, which is read from now on. */
  meet(request: IncomingMessage): void {
    this.#open.get(request)?.writeContinue()
    this.#open.delete(request)
  }

  /** The server never asked for the body, so either the body or another request may come next: RFC 9110, 10.1.1. */
  isOpen(request: IncomingMessage): boolean {
    return this.#open.has(request) && !request.complete
  }
}
