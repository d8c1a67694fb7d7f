import { createServer as createHttpsServer } from 'node:https'
import { createServer } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { describe, expect, test, vi } from 'vitest'
import { type Certificate, certificates } from './certificate.ts'
import { errorClassOf, httpReceiver, listening, localSender, post } from './receiver.ts'

describe('over TLS', () => {
  const { valid: certificate, expired } = certificates

  async function secureReceiver({ key, cert }: Certificate) {
    const names: (string | false)[] = []
    const server = createHttpsServer({ key, cert }, (request, response) => {
      request.resume()
      response.end('ok')
    })
    server.on('secureConnection', (socket) => names.push(socket.servername ?? false))
    return { ...(await listening(server)), names }
  }

  test('a trusted certificate is enough, and the name asked for is the one in the URL', async () => {
    const { port, names, sockets } = await secureReceiver(certificate)
    const sender = localSender({ ca: certificate.cert })
    const first = await post(sender, `https://hooks.localhost:${port}/`)
    expect(first.result).toMatchObject({ kind: 'answered', status: 200 })
    expect(Object.keys(first.timings).sort()).toEqual([
      'connectMs',
      'dnsMs',
      'firstByteMs',
      'tlsMs',
      'totalMs',
    ])
    const { timings } = await post(sender, `https://hooks.localhost:${port}/`)
    expect(timings.tlsMs).toBeUndefined()
    expect(sockets).toHaveLength(1)
    expect(names).toEqual(['hooks.localhost'])
  })

  test('an address in the URL is checked against the certificate too', async () => {
    const { port } = await secureReceiver(certificate)
    const sender = localSender({ ca: certificate.cert })
    expect(errorClassOf(await post(sender, `https://127.0.0.1:${port}/`))).toBe('answered 200')
    expect(errorClassOf(await post(sender, `https://127.0.0.2:${port}/`))).toBe('refused')
  })

  test('one that nobody trusts is refused, whatever the environment says', async () => {
    const { port, names } = await secureReceiver(certificate)
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0')
    const { result } = await post(localSender(), `https://localhost:${port}/`)
    vi.unstubAllEnvs()
    expect(result).toMatchObject({ kind: 'failed', errorClass: 'tls', message: 'self-signed certificate' })
    expect(names.length).toBeLessThanOrEqual(1)
  })

  test('one for another name is refused', async () => {
    const { port } = await secureReceiver(certificate)
    const sender = localSender({ ca: certificate.cert })
    const { result } = await post(sender, `https://other.localhost:${port}/`)
    expect(result).toMatchObject({ kind: 'failed', errorClass: 'tls' })
    expect(errorClassOf(await post(sender, `https://other.localhost:${port}/`))).toBe('tls')
  })

  test('one that has expired is refused', async () => {
    const { port } = await secureReceiver(expired)
    const sent = await post(localSender({ ca: expired.cert }), `https://localhost:${port}/`)
    expect(sent.result).toMatchObject({ errorClass: 'tls', message: 'certificate has expired' })
  })

  test('a peer that speaks no TLS fails as tls', async () => {
    const plain = await httpReceiver((_, response) => response.end('ok'))
    expect(errorClassOf(await post(localSender(), `https://127.0.0.1:${plain.port}/`))).toBe('tls')
  })

  test('a peer that hangs up amid the handshake fails as reset', async () => {
    const { port } = await listening(createServer((socket) => socket.on('data', () => socket.destroy())))
    expect(errorClassOf(await post(localSender(), `https://127.0.0.1:${port}/`))).toBe('reset')
  })

  test('a handshake that stalls is a connect_timeout, by its own limit or the deadline', async () => {
    const { port, sockets } = await listening(createServer((socket) => socket.resume()))
    const url = `https://127.0.0.1:${port}/`
    const sent = await post(localSender({ connectMs: 200 }), url)
    expect(errorClassOf(sent)).toBe('connect_timeout')
    expect(sent.timings.tlsMs).toBeGreaterThan(0)
    expect(errorClassOf(await post(localSender(), url, { timeoutMs: 200 }))).toBe('connect_timeout')
    await vi.waitFor(() => expect(sockets.map(({ destroyed }) => destroyed)).toEqual([true, true]), 60_000)
  })

  test('a connection reset after the handshake fails as reset', async () => {
    const server = createTlsServer({ key: certificate.key, cert: certificate.cert }, (socket) =>
      socket.on('error', () => socket.destroy()).on('data', () => socket.destroy()),
    )
    const { port } = await listening(server)
    const sender = localSender({ ca: certificate.cert })
    expect(errorClassOf(await post(sender, `https://localhost:${port}/`))).toBe('reset')
  })
})
