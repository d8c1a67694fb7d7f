import type { Dispatcher } from 'undici'
import type { Connection } from './connection.ts'
import { SendError, toSendError } from './failure.ts'

/** As much of an answer as was read. */
export interface Answer {
  readonly status: number
  readonly headers: Record<string, string>
  /** Its first 16 KB. */
  readonly body: Buffer
  readonly bytes: number
}

const headerCharsMax = 16_384
const bodyBytesMax = 65_536
const keptBytesMax = 16_384
const drainMs = 2000
/** Enough for a few hints before the answer; a flood of them is no answer. */
const informationalMax = 10

/**
 * One request on one connection. The head of the answer decides: what the body does afterwards changes nothing, so it
 * is read for a short while only.
 */
export class Exchange {
  readonly #connection: Connection
  readonly #signal: AbortSignal
  readonly #chunks: Buffer[] = []
  readonly #onAbort = () => this.#end(this.#lateness())
  #settle: { answer: (answer: Answer) => void; fail: (error: SendError) => void } | null = null
  #head: { status: number; headers: Record<string, string> } | null = null
  #bytes = 0
  #informational = 0
  #startedAt = 0
  #heardAt: number | null = null
  #drain: NodeJS.Timeout | undefined

  constructor(connection: Connection, signal: AbortSignal) {
    this.#connection = connection
    this.#signal = signal
  }

  /** From the request's first byte to the answer's. */
  get firstByteMs(): number | null {
    return this.#heardAt === null ? null : this.#heardAt - this.#startedAt
  }

  /** Rejects with SendError. */
  run(options: Dispatcher.DispatchOptions): Promise<Answer> {
    return new Promise((answer, fail) => {
      this.#settle = { answer, fail }
      this.#signal.addEventListener('abort', this.#onAbort)
      if (this.#signal.aborted) this.#onAbort()
      else this.#connection.dispatch(options, this.#handler())
    })
  }

  #handler(): Dispatcher.DispatchHandler {
    return {
      onRequestStart: () => {
        this.#startedAt = performance.now()
      },
      onResponseStarted: () => {
        this.#heardAt ??= performance.now()
      },
      onResponseStart: (_, status, headers) => this.#hear(status, headers),
      onResponseData: (_, chunk) => this.#keep(chunk),
      onResponseEnd: () => {
        if (this.#settle === null) return
        this.#connection.endsAnswer()
        this.#end(null)
      },
      onResponseError: (_, error) => this.#end(toSendError(error)),
    }
  }

  #hear(status: number, headers: Record<string, string | string[] | undefined>): void {
    if (this.#settle === null) return
    if (status < 200) {
      this.#informational += 1
      if (this.#informational > informationalMax) this.#end(new SendError('protocol', 'Too many 1xx answers'))
      return
    }
    const joined = Object.entries(headers).map(([name, value]) => [name, [value].flat().join(', ')] as const)
    if (joined.reduce((chars, [name, value]) => chars + name.length + value.length, 0) > headerCharsMax) {
      this.#end(new SendError('protocol', `The headers have more than ${headerCharsMax} characters`))
      return
    }
    this.#connection.beginsAnswer()
    this.#head = { status, headers: Object.fromEntries(joined) }
    this.#drain = setTimeout(() => this.#end(null), drainMs)
  }

  /** Copied, since a chunk is a window on a larger buffer. */
  #keep(chunk: Buffer): void {
    if (this.#settle === null) return
    const room = keptBytesMax - this.#bytes
    if (room > 0) this.#chunks.push(Buffer.from(chunk.subarray(0, room)))
    this.#bytes += chunk.length
    if (this.#bytes > bodyBytesMax) this.#end(null)
  }

  /** Once there is a head, there is an answer. What comes later is not heard: the connection is busy and is dropped. */
  #end(failure: SendError | null): void {
    const settle = this.#settle
    if (settle === null) return
    this.#settle = null
    clearTimeout(this.#drain)
    this.#signal.removeEventListener('abort', this.#onAbort)
    if (this.#head !== null) {
      const bytes = Math.min(this.#bytes, bodyBytesMax)
      settle.answer({ ...this.#head, body: Buffer.concat(this.#chunks), bytes })
    } else {
      settle.fail(failure ?? new SendError('protocol', 'The answer ended before its head'))
    }
  }

  /** A deadline that passes is told by what was waited for. */
  #lateness(): SendError {
    const reason = toSendError(this.#signal.reason)
    if (reason.errorClass !== 'timeout') return reason
    const { phase } = this.#connection.progress
    if (phase === 'open') return reason
    const isDns = phase === 'dns'
    return new SendError(isDns ? 'dns' : 'connect_timeout', `${reason.message}, while waiting for ${phase}`)
  }
}
