import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { onTestFinished } from 'vitest'

/** Addresses of the family asked for, none, no such name, a failure, or no answer at all. */
export type Reply =
  | { addresses: readonly string[]; ttl?: number }
  | 'none'
  | 'NXDOMAIN'
  | 'SERVFAIL'
  | 'silence'
export type Family = 'A' | 'AAAA'

export interface DnsServer {
  /** For `dns.Resolver`. */
  readonly server: string
  readonly questions: { name: string; family: Family }[]
}

const codes = { none: 0, SERVFAIL: 2, NXDOMAIN: 3 }

/** A name server that answers what it is told to. */
export async function dnsServer(reply: (name: string, family: Family) => Reply): Promise<DnsServer> {
  const socket = createSocket('udp4')
  const questions: DnsServer['questions'] = []
  socket.on('message', (message, { port, address }) => {
    const { name, family, end } = readQuestion(message)
    questions.push({ name, family })
    const answer = reply(name, family)
    if (answer !== 'silence') socket.send(write(message.subarray(0, end), answer), port, address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  onTestFinished(() => {
    socket.close()
  })
  return { server: `127.0.0.1:${socket.address().port}`, questions }
}

function readQuestion(message: Buffer): { name: string; family: Family; end: number } {
  const labels: string[] = []
  let at = 12
  for (let length = message[at] ?? 0; length > 0; length = message[at] ?? 0) {
    labels.push(message.toString('latin1', at + 1, at + 1 + length))
    at += length + 1
  }
  return { name: labels.join('.'), family: message.readUInt16BE(at + 1) === 28 ? 'AAAA' : 'A', end: at + 5 }
}

/** The question again, and one record for each address, named by a pointer to the question. */
function write(question: Buffer, answer: Exclude<Reply, 'silence'>): Buffer {
  const records =
    typeof answer === 'string' ? [] : answer.addresses.map((text) => record(text, answer.ttl ?? 60))
  const head = Buffer.from(question.subarray(0, 12))
  head.writeUInt16BE(0x8180 | (typeof answer === 'string' ? codes[answer] : 0), 2)
  head.writeUInt16BE(records.length, 6)
  head.fill(0, 8)
  return Buffer.concat([head, question.subarray(12), ...records])
}

function record(address: string, ttl: number): Buffer {
  const bytes = address.includes(':') ? bytesOf6(address) : Buffer.from(address.split('.').map(Number))
  const head = Buffer.alloc(12)
  head.writeUInt16BE(0xc00c, 0)
  head.writeUInt16BE(bytes.length === 16 ? 28 : 1, 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt32BE(ttl, 6)
  head.writeUInt16BE(bytes.length, 10)
  return Buffer.concat([head, bytes])
}

function bytesOf6(address: string): Buffer {
  const [head = [], tail = []] = address
    .split('::')
    .map((side) => side.split(':').filter((group) => group !== ''))
  const groups = [...head, ...Array(8 - head.length - tail.length).fill('0'), ...tail]
  return Buffer.from(groups.map((group) => group.padStart(4, '0')).join(''), 'hex')
}
