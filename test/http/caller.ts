import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

/** A client that speaks HTTP by hand: what it sends, and when it goes, is up to the test. */
export class Caller {
  readonly #socket: Socket
  readonly #host: string
  #received = ''

  private constructor(socket: Socket, host: string) {
    this.#socket = socket
    this.#host = host
    socket.setEncoding('latin1')
    socket.on('data', (text) => {
      this.#received += text
    })
    // Being cut off is what some tests are about.
    socket.on('error', () => undefined)
  }

  static async to(url: string): Promise<Caller> {
    const { hostname, port, host } = new URL(url)
    const socket = connect({ host: hostname, port: Number(port) })
    await once(socket, 'connect')
    return new Caller(socket, host)
  }

  /** Everything that came so far. */
  get received(): string {
    return this.#received
  }

  /** The statuses of all answers that came so far. */
  get statuses(): number[] {
    return [...this.#received.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map((match) => Number(match[1]))
  }

  /** Whether the server has closed the connection, or this side has. */
  get isClosed(): boolean {
    return this.#socket.destroyed
  }

  get(path: string): void {
    this.send(`GET ${path} HTTP/1.1\r\nHost: ${this.#host}\r\n\r\n`)
  }

  /** Whether what comes is read. */
  listens(isListening: boolean): void {
    if (isListening) this.#socket.resume()
    else this.#socket.pause()
  }

  send(text: string): void {
    if (!this.#socket.destroyed) this.#socket.write(text, 'latin1')
  }

  /** Says that nothing more will be sent; what comes can still be read. */
  endWriting(): void {
    this.#socket.end()
  }

  hangUp(): void {
    this.#socket.destroy()
  }

  /** Breaks the connection off with a reset instead of an orderly end. */
  reset(): void {
    this.#socket.resetAndDestroy()
  }
}
