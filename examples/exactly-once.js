// At-least-once delivery, exactly-once effect: the handler's own transaction also completes the delivery.
import './shared/needs-database.js'
import pg from 'pg'
import { createPosthorn } from 'posthorn'

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
await pool.query('create table if not exists balance (amount int)')
await pool.query('insert into balance values (0)')
const hub = await createPosthorn({ database: pool })
let crashes = 1
let done = 0

hub.on('payment.received', { name: 'bookkeeping', retry: { baseMs: 50 } }, async (event, attempt) => {
  const tx = await pool.connect()
  try {
    await tx.query('begin')
    await tx.query('update balance set amount = amount + $1', [event.payload.amount])
    await attempt.completeIn(tx) // throws if this lease is lost: then nothing of this commits
    if (crashes-- > 0) throw new Error('the process died before COMMIT')
    await tx.query('commit')
    done++
  } catch (error) {
    await tx.query('rollback')
    throw error
  } finally {
    tx.release()
  }
})
await hub.start()
await hub.publishMany([10, 20, 30].map((amount) => ({ type: 'payment.received', payload: { amount } })))

while (done < 3) await new Promise((resolve) => setTimeout(resolve, 10))
const { rows } = await pool.query('select amount from balance')
console.log(`balance: ${rows[0].amount}`)
await hub.unsubscribe('bookkeeping')
await hub.stop()
await pool.query('drop table balance')
await pool.end()
