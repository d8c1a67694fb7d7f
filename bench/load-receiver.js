/** Five receivers in one process. Each delivery says when its event was published: what matters is when it arrives. */
import { createServer } from 'node:http'

const { endpoints } = JSON.parse(process.env.BENCH_SETUP)
const seen = new Map()
const latenciesMs = []

const urls = await Promise.all(Array.from({ length: endpoints }, listen))
process.on('message', (message) => {
  if (message === 'stop') process.exit(0)
  process.send({ count: seen.size, repeats: latenciesMs.length - seen.size, latenciesMs })
})
process.send({ urls })

function listen() {
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8')
    request.on('data', (chunk) => {
      body += chunk
    })
    request.on('end', () => {
      const { publishedAt } = JSON.parse(body).data
      latenciesMs.push(Date.now() - publishedAt)
      seen.set(request.headers['webhook-id'], true)
      response.writeHead(204).end()
    })
  })
  server.keepAliveTimeout = 60_000
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve(`http://127.0.0.1:${server.address().port}/hook`))
  })
}
