/** A client that costs little: one kept-alive connection, one request at a time, answers with a Content-Length. */
import { once } from 'node:events'
import net from 'node:net'

export async function openConnection({ url, key }) {
  const { hostname, port } = new URL(url)
  const socket = net.connect({ host: hostname, port: Number(port), noDelay: true })
  await once(socket, 'connect')
  const authorization = key === undefined ? '' : `Authorization: Bearer ${key}\r\n`
  let waiting = null
  let received = ''
  socket.setEncoding('latin1')
  socket.on('data', (text) => {
    received += text
    const answer = readAnswer(received)
    if (answer === null) return
    received = ''
    const { resolve } = waiting
    waiting = null
    resolve(answer)
  })
  const fail = (error) => waiting?.reject(error ?? new Error('The server closed the connection'))
  socket.on('error', fail)
  socket.on('close', () => fail())
  return {
    /** @returns {Promise<{ status: number, text: string }>} */
    request(method, path, body = '') {
      const content =
        body === '' ? '' : `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n`
      socket.write(
        `${method} ${path} HTTP/1.1\r\nHost: ${hostname}:${port}\r\n${authorization}${content}\r\n${body}`,
      )
      return new Promise((resolve, reject) => {
        waiting = { resolve, reject }
      })
    },
    close: () => socket.destroy(),
  }
}

/** Null until it is whole. */
function readAnswer(received) {
  const end = received.indexOf('\r\n\r\n')
  if (end === -1) return null
  const length = Number(/\r\ncontent-length: (\d+)/i.exec(received.slice(0, end))?.[1] ?? 0)
  if (received.length < end + 4 + length) return null
  return { status: Number(received.slice(9, 12)), text: received.slice(end + 4) }
}
