import type { Server } from 'node:http'

/** Knows when a server has answered everything it was asked. */
export class RequestsUnderWay {
  #count = 0
  #tell: () => void = () => undefined

  constructor(server: Server) {
    server.on('request', (_request, response) => {
      this.#count++
      response.once('close', () => {
        this.#count--
        if (this.#count === 0) this.#tell()
      })
    })
  }

  /** Resolves when none is under way. */
  over(): Promise<void> {
    return new Promise((resolve) => {
      this.#tell = resolve
      if (this.#count === 0) resolve()
    })
  }
}
