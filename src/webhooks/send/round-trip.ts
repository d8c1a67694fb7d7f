import type { Dispatcher } from 'undici'
import { GrowingBytes } from '../../domain/growing-bytes.ts'
import type { Connection } from './connection.ts'
import type { ContinueListener } from './continue-filter.ts'
import type { Deadline } from './deadline.ts'
import type { Ending } from './escapes.ts'
import { SendError, toSendError } from './send-failure.ts'

/** A response, as far as it was read. */
export interface Answer {
  readonly status: number
  readonly headers: Record<string, string>
  /** The first 16 KB. */
  readonly body: Buffer
  readonly bytes: number
  /** `'cut'`: the body was longer than what is kept, or broke off. */
  readonly ending: Ending
}

const headerCharsMax = 16_384
const bodyBytesMax = 65_536
const keptBytesMax = 16_384
const drainMs = 2000
const nothing = Buffer.alloc(0)
/** A few informational responses (1xx) may come before the response; a flood of them is refused. */
const informationalMax = 10

/**
 * One request and its response on one connection. Status and headers decide the outcome, and the body changes nothing, so the
 * body is read for a short while only.
 */
export class RoundTrip implements Dispatcher.DispatchHandler, ContinueListener {
  readonly #connection: Connection
  readonly #deadline: Deadline
  #kept: GrowingBytes | null = null
  #settle: { answer: (answer: Answer) => void; fail: (error: SendError) => void } | null = null
  #head: { status: number; headers: Record<string, string> } | null = null
  #bytes = 0
  #informational = 0
  #isOver = false
  #startedAt = 0
  #firstByteAt: number | null = null
  #drain: NodeJS.Timeout | undefined

  constructor(connection: Connection, deadline: Deadline) {
    this.#connection = connection
    this.#deadline = deadline
  }

  /** From the request's first byte to the answer's. */
  get firstByteMs(): number | null {
    return this.#firstByteAt === null ? null : this.#firstByteAt - this.#startedAt
  }

  /** Rejects with SendError. */
  run(options: Dispatcher.DispatchOptions): Promise<Answer> {
    return new Promise((answer, fail) => {
      this.#settle = { answer, fail }
      const { failure } = this.#deadline
      if (failure !== null) return this.#end(this.#timeoutError(failure))
      this.#deadline.watch((late) => this.#end(this.#timeoutError(late)))
      this.#connection.dispatch(options, this)
    })
  }

  // undici and the connection call these. The object itself is the handler: six closures per request would be a tenth of its cost.

  onRequestStart(): void {
    this.#startedAt = performance.now()
  }

  onBytes(): void {
    // Bytes that come before the request was sent are not a response to it.
    if (this.#startedAt > 0) this.#firstByteAt ??= performance.now()
  }

  onContinue(): void {
    this.#start(100, {})
  }

  onResponseStart(_: unknown, status: number, headers: Record<string, string | string[] | undefined>): void {
    this.#start(status, headers)
  }

  onResponseData(_: unknown, chunk: Buffer): void {
    this.#keep(chunk)
  }

  onResponseEnd(): void {
    if (this.#settle === null) return
    this.#connection.endsAnswer()
    this.#isOver = true
    this.#end(null)
  }

  onResponseError(_: unknown, error: Error): void {
    this.#end(toSendError(error))
  }

  #start(status: number, headers: Record<string, string | string[] | undefined>): void {
    if (this.#settle === null) return
    if (status < 100) {
      this.#end(new SendError('protocol', `The answer has the status ${String(status).padStart(3, '0')}`))
      return
    }
    if (status < 200) {
      this.#informational += 1
      if (this.#informational > informationalMax) this.#end(new SendError('protocol', 'Too many 1xx answers'))
      return
    }
    // Without a prototype: a header may be named __proto__.
    const joined: Record<string, string> = Object.create(null)
    let chars = 0
    for (const name in headers) {
      const value = headers[name] ?? ''
      const text = typeof value === 'string' ? value : value.join(', ')
      joined[name] = text
      chars += name.length + text.length
    }
    if (chars > headerCharsMax) {
      this.#end(new SendError('protocol', `The headers have more than ${headerCharsMax} characters`))
      return
    }
    this.#connection.beginsAnswer()
    this.#head = { status, headers: joined }
    queueMicrotask(this.#onHead)
  }

  /** Most responses are complete by now and need no timer. */
  readonly #onHead = () => {
    if (this.#settle !== null) this.#drain = setTimeout(() => this.#end(null), drainMs)
  }

  #keep(chunk: Buffer): void {
    if (this.#settle === null) return
    const room = keptBytesMax - this.#bytes
    if (room > 0) {
      this.#kept ??= new GrowingBytes()
      this.#kept.add(chunk.length > room ? chunk.subarray(0, room) : chunk)
    }
    this.#bytes += chunk.length
    if (this.#bytes > bodyBytesMax) this.#end(null)
  }

  /** With status and headers there is a response. Later bytes are ignored: the connection is still busy, and is dropped. */
  #end(failure: SendError | null): void {
    const settle = this.#settle
    if (settle === null) return
    this.#settle = null
    clearTimeout(this.#drain)
    this.#deadline.watch(null)
    if (this.#head !== null) {
      const { status, headers } = this.#head
      const body = this.#kept?.bytes ?? nothing
      const ending = this.#isOver && this.#bytes === body.length ? 'whole' : 'cut'
      settle.answer({ status, headers, body, bytes: Math.min(this.#bytes, bodyBytesMax), ending })
    } else {
      settle.fail(failure ?? new SendError('protocol', 'The answer ended before its head'))
    }
  }

  /** Names the step that the request was waiting for when its time was over. */
  #timeoutError(reason: SendError): SendError {
    if (reason.errorClass !== 'timeout') return reason
    const { phase } = this.#connection.progress
    if (phase === 'open') return reason
    const isDns = phase === 'dns'
    return new SendError(isDns ? 'dns' : 'connect_timeout', `${reason.message}, while waiting for ${phase}`)
  }
}
