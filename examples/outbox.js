// The outbox without an outbox table: the order and its event commit together, or neither exists.
import './shared/needs-database.js'
import pg from 'pg'
import { createPosthorn } from 'posthorn'

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
const hub = await createPosthorn({ database: pool })
const seen = []
hub.on('order.created', { name: 'shipping' }, (event) => void seen.push(event.payload.order))
await hub.start()

await pool.query('create table if not exists orders (id int primary key)')
await placeOrder(1)
await placeOrder(1).catch((error) => console.log(`refused: ${error.message}`)) // its event is rolled back with it
await placeOrder(2)

while (seen.length < 2) await new Promise((resolve) => setTimeout(resolve, 10))
console.log(`shipped: ${seen.sort().join(', ')}`)
await hub.unsubscribe('shipping')
await hub.stop()
await pool.query('drop table orders')
await pool.end()

async function placeOrder(order) {
  const tx = await pool.connect()
  try {
    await tx.query('begin')
    await hub.publish({ type: 'order.created', payload: { order } }, { tx })
    await tx.query('insert into orders values ($1)', [order])
    await tx.query('commit')
  } catch (error) {
    await tx.query('rollback')
    throw error
  } finally {
    tx.release()
  }
}
