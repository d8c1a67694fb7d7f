import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { ServerAddress } from './server.ts'

export interface TestProxy {
  readonly connection: ServerAddress
  /** Cuts the connection when a client sends `text`: the server never sees it, or has answered it already. */
  cutAt(text: string, when: 'before' | 'after'): void
  /** Swallows every byte from now on, and leaves the sockets open. */
  blackhole(): void
  /** Cuts every connection there is. */
  drop(): void
  /** Passes bytes again, on new connections. */
  heal(): void
  close(): Promise<void>
}

/** Stands between the driver and the server, and breaks what a test asks it to break. */
export async function startProxy(server: ServerAddress): Promise<TestProxy> {
  const sockets = new Set<Socket>()
  let cut: { text: string; when: 'before' | 'after' } | undefined
  let swallowing = false

  // Half-open, so that a black hole does not even answer a goodbye.
  const listener = createServer({ allowHalfOpen: true }, (client) => {
    const upstream = server.host.startsWith('/')
      ? connect(`${server.host}/.s.PGSQL.${server.port}`)
      : connect(server.port, server.host)
    let cutting = false
    const destroy = () => {
      client.destroy()
      upstream.destroy()
    }
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', destroy)
      socket.on('end', () => {
        if (!swallowing) destroy()
      })
      socket.on('close', () => {
        sockets.delete(socket)
        if (!swallowing) destroy()
      })
    }
    client.on('data', (bytes) => {
      if (swallowing) return
      if (cut !== undefined && bytes.includes(cut.text)) {
        const { when } = cut
        cut = undefined
        if (when === 'before') return destroy()
        cutting = true
      }
      upstream.write(bytes)
    })
    upstream.on('data', (bytes) => {
      if (cutting) return destroy()
      if (!swallowing) client.write(bytes)
    })
  })
  const drop = () => {
    for (const socket of sockets) socket.destroy()
  }
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')

  return {
    connection: { ...server, host: '127.0.0.1', port: (listener.address() as AddressInfo).port },
    cutAt(text, when) {
      cut = { text, when }
    },
    blackhole() {
      swallowing = true
    },
    drop,
    heal() {
      drop()
      swallowing = false
    },
    async close() {
      drop()
      listener.close()
      await once(listener, 'close')
    },
  }
}
