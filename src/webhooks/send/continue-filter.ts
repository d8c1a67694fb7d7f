import type { Socket } from 'node:net'

/** A longer head of a 1xx response goes to the parser, which refuses it. */
const headBytesMax = 4096
const headEnd = Buffer.from('\r\n\r\n')
/** With the character after the status: `1000` is not 100. */
const statusLine = /^HTTP\/1\.[01] (1\d\d)[ \r\n]/
const statusLineBytes = 13

export interface ContinueListener {
  /** The first bytes have come; they may be too few to recognize. */
  onBytes(): void
  /** The peer sent `100 Continue`, and its response is still to come. */
  onContinue(): void
}

/**
 * Removes `100 Continue` from what a socket reads before a response. A server may send it unasked, and undici takes that for a
 * broken response. Everything else passes unchanged.
 */
export class ContinueFilter {
  #held: Buffer | null = null
  /** Null: the response has begun, and nothing is filtered any more. */
  #listener: ContinueListener | null = null

  /** From now on every read from the socket goes through the filter. */
  attach(socket: Socket): void {
    const read = socket.read.bind(socket)
    socket.read = (size?: number) => {
      for (let chunk = read(size); chunk !== null; chunk = read(size)) {
        const passed = this.#listener === null ? chunk : this.#pass(chunk, this.#listener)
        if (passed.length > 0) return passed
      }
      return null
    }
  }

  /** A new response is expected. */
  expectAnswer(listener: ContinueListener): void {
    this.#held = null
    this.#listener = listener
  }

  #pass(chunk: Buffer, listener: ContinueListener): Buffer {
    listener.onBytes()
    let rest = this.#held === null ? chunk : Buffer.concat([this.#held, chunk])
    this.#held = null
    const passed: Buffer[] = []
    while (rest.length > 0) {
      const head = this.#nextHead(rest)
      if (head === 'unfinished') {
        this.#held = rest
        break
      }
      if (head === 'answer') {
        this.#listener = null
        passed.push(rest)
        break
      }
      if (head.status === '100') listener.onContinue()
      else passed.push(rest.subarray(0, head.bytes))
      rest = rest.subarray(head.bytes)
    }
    return Buffer.concat(passed)
  }

  #nextHead(bytes: Buffer): 'unfinished' | 'answer' | { status: string; bytes: number } {
    const beginning = bytes.toString('latin1', 0, statusLineBytes)
    if (beginning.length < statusLineBytes) return mayBecomeInterim(beginning) ? 'unfinished' : 'answer'
    const [, status] = statusLine.exec(beginning) ?? []
    if (status === undefined || status === '101') return 'answer'
    const end = bytes.indexOf(headEnd)
    if (end >= 0) return { status, bytes: end + headEnd.length }
    return bytes.length > headBytesMax ? 'answer' : 'unfinished'
  }
}

/** Whether these first bytes may become the status line of a 1xx response. */
function mayBecomeInterim(beginning: string): boolean {
  return statusLine.test(beginning + 'HTTP/1.1 100 '.slice(beginning.length))
}
