import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { ServerAddress } from './server.ts'

type CutMoment = 'before' | 'after' | 'committed'

export interface TestProxy {
  readonly connection: ServerAddress
  /**
   * Cuts the connection when a client sends `text`: the server never sees it, or has answered it already, or has
   * committed what came with it, of which the client hears nothing.
   */
  cutAt(text: string, when: CutMoment): void
  /** Swallows every byte from now on, or only what the server says, and leaves the sockets open. */
  blackhole(what?: 'all' | 'answers'): void
  /** The next client that sends `text` hears nothing from then on. All others go on. */
  muteAt(text: string): void
  /** Cuts every connection there is. */
  drop(): void
  /** Cuts every connection there is, and each new one as soon as it is made. */
  reset(): void
  /** Cuts every connection there is, and lets nobody connect until `accept`. */
  refuse(): Promise<void>
  accept(): Promise<void>
  /** Passes bytes again, on new connections. */
  heal(): void
  close(): Promise<void>
}

/** Stands between the driver and the server, and breaks what a test asks it to break. */
export async function startProxy(server: ServerAddress): Promise<TestProxy> {
  const sockets = new Set<Socket>()
  const clients = new Set<Socket>()
  let cut: { text: string; when: CutMoment } | undefined
  let muteText: string | undefined
  let swallowing: 'nothing' | 'all' | 'answers' = 'nothing'
  let resetting = false

  // Half-open, so that a black hole does not even answer a goodbye.
  const listener = createServer({ allowHalfOpen: true }, (client) => {
    if (resetting) {
      client.resetAndDestroy()
      return
    }
    const upstream = server.host.startsWith('/')
      ? connect(`${server.host}/.s.PGSQL.${server.port}`)
      : connect(server.port, server.host)
    let cutting: CutMoment | undefined
    let isMute = false
    const destroy = () => {
      client.destroy()
      upstream.destroy()
    }
    clients.add(client)
    client.on('close', () => clients.delete(client))
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', destroy)
      socket.on('end', () => {
        if (swallowing === 'nothing') destroy()
      })
      socket.on('close', () => {
        sockets.delete(socket)
        if (swallowing === 'nothing') destroy()
      })
    }
    client.on('data', (bytes) => {
      if (muteText !== undefined && bytes.includes(muteText)) {
        muteText = undefined
        isMute = true
      }
      if (isMute || swallowing === 'all') return
      if (cut !== undefined && bytes.includes(cut.text)) {
        const { when } = cut
        cut = undefined
        if (when === 'before') return destroy()
        cutting = when
      }
      upstream.write(bytes)
    })
    upstream.on('data', (bytes) => {
      if (isMute) return
      if (cutting === 'after' || (cutting === 'committed' && bytes.includes('COMMIT'))) return destroy()
      if (cutting !== undefined) return
      if (swallowing === 'nothing') client.write(bytes)
    })
  })
  const drop = () => {
    for (const socket of sockets) socket.destroy()
  }
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const { port } = listener.address() as AddressInfo

  return {
    connection: { ...server, host: '127.0.0.1', port },
    cutAt(text, when) {
      cut = { text, when }
    },
    blackhole(what = 'all') {
      swallowing = what
    },
    muteAt(text) {
      muteText = text
    },
    drop,
    reset() {
      resetting = true
      for (const client of clients) client.resetAndDestroy()
    },
    async refuse() {
      drop()
      listener.close()
      await once(listener, 'close')
    },
    async accept() {
      listener.listen(port, '127.0.0.1')
      await once(listener, 'listening')
    },
    heal() {
      drop()
      swallowing = 'nothing'
      resetting = false
    },
    async close() {
      drop()
      if (!listener.listening) return
      listener.close()
      await once(listener, 'close')
    },
  }
}
