import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

/** An answer as it came. */
export interface RawAnswer {
  readonly status: number
  /** Names in lower case. */
  readonly headers: ReadonlyMap<string, string>
  readonly body: Buffer
  readonly ms: number
}

/** How long a silent server is waited for. */
const patienceMs = 15_000

/**
 * A connection that says exactly the bytes it is given: other clients refuse to send half of what is tried here. It is
 * kept for as long as the server keeps it.
 */
export class Connection {
  readonly #port: number
  #socket: Socket | undefined

  constructor(port: number) {
    this.#port = port
  }

  /** Undefined: the server hung up without a word, or said nothing at all. */
  async send(bytes: Buffer, { isHead }: { isHead: boolean }): Promise<RawAnswer | undefined> {
    const socket = await this.#open()
    const startedAt = performance.now()
    const read = readAnswer(socket, { isHead })
    socket.write(bytes)
    const answer = await read
    if (answer === undefined || answer.headers.get('connection') === 'close') this.close()
    return answer === undefined ? undefined : { ...answer, ms: performance.now() - startedAt }
  }

  close(): void {
    this.#socket?.destroy()
    this.#socket = undefined
  }

  async #open(): Promise<Socket> {
    if (this.#socket === undefined || this.#socket.destroyed || this.#socket.readableEnded) {
      this.#socket = await open(this.#port)
    }
    return this.#socket
  }
}

/** All that the server says to these bytes until it hangs up. For what may be one request, or none, or two. */
export async function sendUntilClosed(
  port: number,
  bytes: Buffer,
  { isCutOff }: { isCutOff: boolean },
): Promise<RawAnswer[]> {
  const socket = await open(port)
  const startedAt = performance.now()
  const chunks: Buffer[] = []
  socket.on('data', (chunk) => chunks.push(chunk))
  socket.setTimeout(patienceMs, () => socket.destroy())
  // Only where more is expected: whoever hangs up is not answered.
  if (isCutOff) socket.end(bytes)
  else socket.write(bytes)
  if (!socket.closed) await once(socket, 'close')
  const ms = performance.now() - startedAt
  const answers: RawAnswer[] = []
  let rest: Buffer = Buffer.concat(chunks)
  for (let found = parse(rest, { isHead: false, isEnded: true }); found !== undefined; ) {
    answers.push({ ...found.answer, ms })
    rest = rest.subarray(found.length)
    found = parse(rest, { isHead: false, isEnded: true })
  }
  return answers
}

async function open(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  await once(socket, 'connect')
  // Whoever waits for an answer sees the end of the connection; why it ended does not matter.
  socket.on('error', () => undefined)
  return socket
}

type Parsed = Omit<RawAnswer, 'ms'>

function readAnswer(socket: Socket, { isHead }: { isHead: boolean }): Promise<Parsed | undefined> {
  return new Promise((resolve) => {
    let bytes: Buffer = Buffer.alloc(0)
    const finish = (answer: Parsed | undefined) => {
      socket.setTimeout(0)
      socket.off('data', take).off('end', end).off('close', end).off('timeout', late)
      resolve(answer)
    }
    const take = (chunk: Buffer) => {
      bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk])
      const found = parse(bytes, { isHead, isEnded: false })
      if (found !== undefined) finish(found.answer)
    }
    const end = () => finish(parse(bytes, { isHead, isEnded: true })?.answer)
    const late = () => finish(undefined)
    socket.on('data', take).once('end', end).once('close', end).once('timeout', late)
    socket.setTimeout(patienceMs)
  })
}

interface Ended {
  readonly isHead: boolean
  /** Nothing more will come. */
  readonly isEnded: boolean
}

/** The first answer among the bytes, if it is all there. */
function parse(bytes: Buffer, { isHead, isEnded }: Ended): { answer: Parsed; length: number } | undefined {
  const headEnd = bytes.indexOf('\r\n\r\n')
  if (headEnd < 0) return undefined
  const [first = '', ...lines] = bytes.toString('latin1', 0, headEnd).split('\r\n')
  const status = Number(first.split(' ')[1])
  const start = headEnd + 4
  if (status === 100) {
    const found = parse(bytes.subarray(start), { isHead, isEnded })
    return found && { ...found, length: start + found.length }
  }
  const headers = new Map(
    lines.map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
    }),
  )
  // Nothing here is sent in chunks but Node's own answers, which have no content.
  if (headers.has('transfer-encoding')) {
    const end = bytes.indexOf('0\r\n\r\n', start)
    return end < 0
      ? undefined
      : { answer: { status, headers, body: bytes.subarray(start, end) }, length: end + 5 }
  }
  const isBodiless = isHead || status === 204 || status === 304
  const given = headers.get('content-length')
  if (!isBodiless && given === undefined && !isEnded) return undefined
  const length = isBodiless ? 0 : given === undefined ? bytes.length - start : Number(given)
  if (bytes.length < start + length) return undefined
  return { answer: { status, headers, body: bytes.subarray(start, start + length) }, length: start + length }
}
