import type { Socket } from 'node:net'
import { Client, type Dispatcher } from 'undici'
import type { Connector, Progress } from './connector.ts'
import { ContinueFilter, type ContinueListener } from './continue-filter.ts'
import { SendError } from './send-failure.ts'

const idleMs = 30_000
/** After this time the name may resolve to another address. */
const ageMsMax = 300_000
/**
 * Bytes of one response: until its head is complete, and in all. They also bound what no count of headers or body sees, such
 * as endless status lines. undici has a limit for headers too, but makes an error with a stack for each header beyond it,
 * which can take a quarter of a second for one response.
 */
const headBytesMax = 65_536
const answerBytesMax = 131_072

/**
 * One connection to one endpoint, for one request at a time. It opens for the first request, and again if the peer has closed
 * it since.
 */
export class Connection {
  readonly #client: Client
  readonly #giveUp = new AbortController()
  #progress: Progress = { phase: 'dns' }
  #socket: Socket | null = null
  #openedAt = 0
  #isBusy = false
  /** Responses on the socket that is open now. */
  #answers = 0
  #bytesBefore = 0
  #bytesMax = headBytesMax
  readonly #filter = new ContinueFilter()

  constructor(url: URL, connector: Connector) {
    this.#client = new Client(url.origin, {
      pipelining: 1,
      allowH2: false,
      maxHeaderSize: answerBytesMax,
      keepAliveTimeout: idleMs,
      keepAliveMaxTimeout: idleMs,
      // The deadline of the request bounds everything.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: (_, callback) => {
        this.#open(url, connector)
          .then(
            (socket) => callback(null, socket),
            (error) => callback(error, null),
          )
          .catch((error) => this.destroy(error))
      },
    })
  }

  /** The progress of the request under way, with the time that opening took if the connection was opened for it. */
  get progress(): Readonly<Progress> {
    return this.#progress
  }

  /** It was used before, so the peer may have closed it just now. */
  get isReused(): boolean {
    return this.#answers > 0
  }

  /** Not in the middle of a response, nor if the peer answered before it had read the whole request. */
  get isReusable(): boolean {
    if (this.#isBusy || this.#socket === null || this.#socket.destroyed) return false
    return this.#socket.writableLength === 0 && performance.now() - this.#openedAt < ageMsMax
  }

  dispatch(
    options: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler & ContinueListener,
  ): void {
    this.#isBusy = true
    this.#filter.expectAnswer(handler)
    this.#progress = { phase: this.#socket?.destroyed === false ? 'open' : 'dns' }
    this.#bytesBefore = this.#socket?.bytesRead ?? 0
    this.#bytesMax = headBytesMax
    this.#client.dispatch(options, handler)
  }

  /** The head of the response has come. */
  beginsAnswer(): void {
    this.#bytesMax = answerBytesMax
  }

  /** The response is complete. */
  endsAnswer(): void {
    this.#isBusy = false
    this.#answers += 1
  }

  /** Calls back when the peer or the idle timeout has closed the connection. */
  onClosed(act: () => void): void {
    this.#client.on('disconnect', act)
  }

  async destroy(reason: Error = new SendError('ours', 'The connection was given up')): Promise<void> {
    this.#giveUp.abort(reason)
    await this.#client.destroy(reason)
  }

  async #open(url: URL, connector: Connector): Promise<Socket> {
    this.#progress = { phase: 'dns' }
    this.#answers = 0
    this.#bytesBefore = 0
    const socket = await connector.connect(url, this.#progress, this.#giveUp.signal)
    this.#progress.phase = 'open'
    this.#socket = socket
    this.#openedAt = performance.now()
    this.#filter.attach(socket)
    socket.on('readable', () => {
      if (socket.bytesRead - this.#bytesBefore <= this.#bytesMax) return
      // Empty the buffer, so that it is not parsed.
      socket.read()
      socket.destroy(new SendError('protocol', `The answer has more than ${this.#bytesMax} bytes`))
    })
    return socket
  }
}
