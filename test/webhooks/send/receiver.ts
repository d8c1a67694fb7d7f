import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import { AddressPolicy } from '../../../src/webhooks/send/address-policy.ts'
import { Sender, type SenderOptions, type SendRequest, type Sent } from '../../../src/webhooks/send/sender.ts'

export interface Receiver {
  readonly url: string
  readonly port: number
  /** Every connection that was ever made to it. */
  readonly sockets: Socket[]
}

/** Speaks HTTP as it should. */
export async function httpReceiver(
  answer: (request: IncomingMessage, response: ServerResponse, body: string) => void,
): Promise<Receiver> {
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8')
    request.on('data', (chunk: string) => {
      body += chunk
    })
    request.on('end', () => answer(request, response, body))
  })
  return await listening(server)
}

/** Says anything: `answer` is called once for each request's first bytes. */
export async function rawReceiver(answer: (socket: Socket) => void): Promise<Receiver> {
  return await listening(createTcpServer((socket) => socket.on('data', () => answer(socket))))
}

/** Writes as fast as it is read, until nobody reads. */
export function flood(socket: Socket, start: string, more: string | Buffer): void {
  const chunk = Buffer.concat(Array(Math.ceil(65_536 / more.length)).fill(Buffer.from(more)))
  const pour = () => {
    while (!socket.destroyed && socket.write(chunk));
  }
  socket.on('drain', pour)
  socket.write(start)
  pour()
}

/** Nobody should ever connect to it. */
export async function canary(host = '127.0.0.1'): Promise<Receiver> {
  return await listening(createTcpServer(), host)
}

export async function listening(server: Server, host = '127.0.0.1', port = 0): Promise<Receiver> {
  const sockets: Socket[] = []
  server.on('connection', (socket: Socket) => {
    sockets.push(socket)
    // Hostile receivers write to sockets that are destroyed under them.
    socket.on('error', () => socket.destroy())
  })
  server.listen(port, host)
  await once(server, 'listening')
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
    await once(server, 'close')
  })
  const bound = (server.address() as AddressInfo).port
  return { url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}/hook`, port: bound, sockets }
}

/** A sender that may reach this machine. */
export function localSender(options: Partial<SenderOptions> = {}): Sender {
  const sender = new Sender({ policy: new AddressPolicy(['127.0.0.0/8']), ...options })
  onTestFinished(() => sender.close())
  return sender
}

export async function post(sender: Sender, url: string, request: Partial<SendRequest> = {}): Promise<Sent> {
  const headers = { 'content-type': 'application/json' }
  const body = Buffer.from('{"a":1}')
  return await sender.send({ poolKey: 'sub_1', url, headers, body, timeoutMs: 20_000, ...request })
}

export function errorClassOf({ result }: Sent): string {
  return result.kind === 'failed' ? result.errorClass : `answered ${result.status}`
}
