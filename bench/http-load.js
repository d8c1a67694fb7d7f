/** A load generator that costs little: fixed requests on kept-alive connections, answers only counted. */
import net from 'node:net'

/**
 * Sends the same request on `connections` connections, each as soon as the one before is answered, for `ms`, after as
 * long a warm-up. With `perSecond` at that rate instead.
 *
 * @returns {Promise<{ perSecond: number, latenciesMs: number[], failed: number }>}
 */
export async function load({ url, path, key, body, connections, ms, perSecond }) {
  const { hostname, port } = new URL(url)
  const request = Buffer.from(
    `POST ${path} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAuthorization: Bearer ${key}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  )
  const run = { latenciesMs: [], failed: 0, from: performance.now() + ms, until: performance.now() + 2 * ms }
  const pauseMs = perSecond === undefined ? 0 : (1000 * connections) / perSecond
  await Promise.all(
    Array.from({ length: connections }, (_, place) =>
      keepAsking({ hostname, port, request, run, pauseMs, place }),
    ),
  )
  return { perSecond: (run.latenciesMs.length * 1000) / ms, latenciesMs: run.latenciesMs, failed: run.failed }
}

function keepAsking({ hostname, port, request, run, pauseMs, place }) {
  return new Promise((resolve, reject) => {
    const socket = net.connect({ host: hostname, port: Number(port), noDelay: true })
    let askedAt = 0
    const ask = () => {
      askedAt = performance.now()
      socket.write(request)
    }
    socket.on('error', reject)
    socket.on('connect', () => (pauseMs === 0 ? ask() : setTimeout(ask, (pauseMs * place) % pauseMs)))
    socket.on('data', (answer) => {
      const now = performance.now()
      if (answer[9] !== 0x32) run.failed++ // HTTP/1.1 2xx
      if (askedAt >= run.from) run.latenciesMs.push(now - askedAt)
      if (now >= run.until) {
        socket.end()
        resolve()
      } else if (pauseMs === 0) ask()
      else setTimeout(ask, Math.max(0, pauseMs - (now - askedAt)))
    })
  })
}
