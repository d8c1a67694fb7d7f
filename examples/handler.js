// Ten lines to durable, retried event processing. Run it with `node examples/handler.js`.
import { once } from 'node:events'
import { createPosthorn } from 'posthorn'

const hub = await createPosthorn() // DATABASE_URL, or an embedded PostgreSQL in ./posthorn-data

hub.on(
  'order.created',
  { name: 'receipt', concurrency: 8, retry: { baseMs: 100 } },
  async (event, attempt) => {
    if (attempt.number === 1) throw new Error('the printer is out of paper')
    console.log(`receipt for order ${event.payload.order}, attempt ${attempt.number}`)
  },
)

await hub.start()
await hub.publish({ type: 'order.created', payload: { order: 7, total: 120 } })
await once(hub.events, 'settled') // the first attempt: it failed, and is due again in 100 ms
await once(hub.events, 'settled') // the second one
await hub.unsubscribe('receipt') // else it would go on being owed orders
await hub.stop()
