// Receives webhooks with Fastify: verify the raw body, keep each id once, answer at once, notice gaps.
import './shared/needs-database.js'
import Fastify from 'fastify'
import pg from 'pg'
import { inbox, inboxTable, LaneChecker, sign, verify } from 'posthorn/webhooks'

// While a secret is rotated there are two, with a comma between them.
const secrets = (process.env.WEBHOOK_SECRETS ?? `whsec_${btoa(crypto.randomUUID())}`).split(',')
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
await pool.query(`${inboxTable}; create table if not exists todo (body json)`)
const lanes = new LaneChecker({ start: 'anywhere' })
// Fastify would parse the body, and what was signed are its bytes.
const app = Fastify({ bodyLimit: 2_000_000 })
app.removeAllContentTypeParsers()
app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))

app.post('/hooks', async (request, reply) => {
  const { id, lane } = verify(request.body, request.headers, secrets) // throws what Fastify answers with 401
  const tx = await pool.connect()
  try {
    await tx.query('begin')
    const isNew = await inbox(tx, id)
    if (isNew) await tx.query('insert into todo values ($1)', [request.body.toString()]) // slow work is for later
    await tx.query('commit')
    tx.release()
    console.log(`${id} is ${isNew ? 'new' : 'known'}, ${lane && lanes.check(lane)}`)
    return reply.code(204).send()
  } catch (error) {
    tx.release(error) // closes the connection, and so undoes all of it
    throw error
  }
})

// Here it sends to itself, as a hub would. The second comes twice, and the fourth without the third.
for (const sequence of [1, 2, 2, 4]) {
  const signed = sign('{}', { id: `msg_${sequence}`, secrets })
  const headers = { ...signed, 'posthorn-ordering-key': 'invoice-7', 'posthorn-sequence': String(sequence) }
  await app.inject({ method: 'POST', url: '/hooks', headers, body: '{}' })
}
await pool.end()
