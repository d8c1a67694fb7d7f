// A worker in a process of its own, over HTTP. Start a server with `npm start`, then run `node examples/pull-worker.js`.
import { PosthornClient } from 'posthorn/client'

const client = new PosthornClient({
  url: process.env.POSTHORN_URL ?? 'http://localhost:8080',
  apiKey: process.env.POSTHORN_KEY,
})
const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())

const worker = client.worker({ tags: 'pdf', concurrency: 4, log: false }, async (event, attempt) => {
  // A long job passes attempt.signal on: it is aborted when the lease is lost or somebody cancels the event.
  if (event.payload.pages === 0) return attempt.bury('there is nothing to print')
  console.log(`${event.title}: ${event.payload.pages} pages`)
})

const printed = await client.publish({ title: 'invoice 7', tags: 'pdf', payload: { pages: 3 } })
const empty = await client.publish({ title: 'invoice 8', tags: 'pdf', payload: { pages: 0 } })

// Here the work ends when these two are done; a worker of yours would just `await worker.run(stop.signal)`.
const running = worker.run(stop.signal)
for (const { id, title } of [printed, empty]) console.log(`${title} is ${await settled(id)}`)
stop.abort()
await running

async function settled(id) {
  for (;;) {
    const { status } = await client.event(id)
    if (status !== 'PENDING' && status !== 'PROCESSING') return status
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
