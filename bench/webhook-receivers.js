/** Fifty receivers in one process of their own: each answers 204, or never. They count, and tell when all have come. */
import { createServer } from 'node:http'

const { endpoints, hanging } = JSON.parse(process.env.BENCH_SETUP)
let expected = Number.POSITIVE_INFINITY
let received = 0

const servers = await Promise.all(Array.from({ length: endpoints }, (_, place) => listen(place < hanging)))
process.on('message', (message) => {
  if (message === 'stop') process.exit(0)
  expected = message.expected
  received = 0
})
process.send({ urls: servers })

function listen(hangs) {
  const server = createServer((request, response) => {
    request.resume()
    request.on('end', () => {
      if (hangs) return
      response.writeHead(204).end()
      if (++received === expected) process.send('all')
    })
  })
  server.keepAliveTimeout = 60_000
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve(`http://127.0.0.1:${server.address().port}/hook`))
  })
}
