// Receives webhooks with Node alone: verify the raw body, let each id count once, answer at once.
import './shared/needs-database.js'
import { createServer } from 'node:http'
import { buffer } from 'node:stream/consumers'
import pg from 'pg'
import { inbox, inboxTable, sign, verify } from 'posthorn/webhooks'

const secret = process.env.WEBHOOK_SECRET ?? `whsec_${btoa(crypto.randomUUID())}`
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
await pool.query(`${inboxTable}; create table if not exists payments (amount int)`)
const server = createServer(async (request, response) => {
  const status = await receive(request).catch(({ code }) => (code === 'BAD_SIGNATURE' ? 401 : 500))
  response.writeHead(status).end()
}).listen(process.env.PORT ?? 0)

async function receive(request) {
  if (!(Number(request.headers['content-length']) <= 2_000_000)) return 413
  const body = await buffer(request)
  const { id } = verify(body, request.headers, secret)
  const tx = await pool.connect()
  try {
    await tx.query('begin')
    if (await inbox(tx, id)) await tx.query('insert into payments values ($1)', [JSON.parse(body).data])
    await tx.query('commit')
    tx.release()
    return 204
  } catch (error) {
    tx.release(error) // closes the connection, and so undoes all of it
    throw error
  }
}

// Here it sends to itself, as a hub would: a payment, the same again, and one that somebody has changed.
const url = `http://localhost:${server.address().port}`
const headers = sign('{"data": 10}', { id: 'msg_1', secrets: secret })
for (const body of ['{"data": 10}', '{"data": 10}', '{"data": 99}']) {
  console.log('answered', (await fetch(url, { method: 'POST', headers, body })).status)
}
console.log('booked', (await pool.query('select amount from payments')).rows)
server.close(() => pool.end())
