import type { IncomingMessage, Server, ServerResponse } from 'node:http'

/**
 * Clients that send `Expect: 100-continue` and wait with their body until they are told to go on. Node would tell them
 * at once; here they are told when the body is wanted, so that whatever is refused before costs nobody its body.
 */
export class Expectations {
  readonly #open = new WeakMap<IncomingMessage, ServerResponse>()

  constructor(server: Server) {
    server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
      this.#open.set(request, response)
      server.emit('request', request, response)
    })
  }

  /** The body is read from now on. */
  meet(request: IncomingMessage): void {
    this.#open.get(request)?.writeContinue()
    this.#open.delete(request)
  }

  /** The body was never asked for, so nobody knows whether it or another request comes next: RFC 9110, 10.1.1. */
  isOpen(request: IncomingMessage): boolean {
    return this.#open.has(request) && !request.complete
  }
}
