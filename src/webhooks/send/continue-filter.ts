import type { Socket } from 'node:net'

/** A head of 1xx that is longer is not worth waiting for: it goes to the parser, which refuses it. */
const headBytesMax = 4096
const headEnd = Buffer.from('\r\n\r\n')
/** With what follows the status: `1000` is no 100. */
const statusLine = /^HTTP\/1\.[01] (1\d\d)[ \r\n]/
const statusLineBytes = 13

export interface ContinueListener {
  /** The first bytes have come; they may be too few to tell what they are. */
  onBytes(): void
  /** The peer has said `100 Continue`, and its answer is still to come. */
  onContinue(): void
}

/**
 * Takes `100 Continue` out of what a socket reads before an answer. A server may send it though nobody asked for it;
 * undici takes that for a broken answer. Whatever else comes is left as it is.
 */
export class ContinueFilter {
  #held: Buffer | null = null
  /** Null: the answer has begun, so nothing is looked at any more. */
  #listener: ContinueListener | null = null

  /** Whoever reads from the socket reads through the filter from now on. */
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

  /** Another answer is waited for. */
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

/** The first bytes of a status line, if what follows is a 1xx. */
function mayBecomeInterim(beginning: string): boolean {
  return statusLine.test(beginning + 'HTTP/1.1 100 '.slice(beginning.length))
}
