/** Our side of B12: the API of one process, as `posthorn serve` runs it. Told what to do by messages, like plain-queue.js. */
import pg from 'pg'
import { dropSchema } from './server.js'

const { openPosthorn } = await import('../dist/create.js')
const { createServer } = await import('../dist/http/server.js')
const { apiRoutes } = await import('../dist/http/routes/index.js')
const { KeyRing } = await import('../dist/keys/key-ring.js')
const { createKey } = await import('../dist/keys/api-keys.js')

const { database, schema } = JSON.parse(process.env.BENCH_SETUP)
const { posthorn: hub, db } = await openPosthorn({ database, schema, log: 'warn' })
await hub.start()
const { text: key } = await createKey(db, {
  name: 'bench',
  scopes: ['admin'],
  ratePerSecond: 1_000_000,
  actor: 'bench',
})
const routes = apiRoutes(hub, { isDraining: () => false, version: 'bench' })
const keys = new KeyRing({ db, adminKey: undefined })
const server = createServer({ routes, keys, log: hub.log })
const url = await server.listen({ host: '127.0.0.1', port: 0 })
process.send({ url, key })
process.on('message', handle)

async function handle(message) {
  if (message === 'cpu') {
    process.send({ cpu: process.cpuUsage() })
  } else if (message === 'stop') {
    await server.close()
    await keys.stop()
    await hub.stop()
    const client = new pg.Client(database)
    await client.connect()
    await dropSchema(client, schema)
    await client.end()
    process.disconnect()
  } else if (message.fill !== undefined) {
    for (let from = 0; from < message.fill; from += 1_000) {
      await hub.publishMany(
        Array.from({ length: Math.min(1_000, message.fill - from) }, (_, place) => ({
          title: 'Work',
          tags: ['bench', `shard-${(from + place) % 10}`],
          payload: { n: from + place },
        })),
      )
    }
    await db.query(`analyze ${db.schema}.events`)
    await db.query(`analyze ${db.schema}.runs`)
    await db.query('checkpoint')
    process.send({ filled: message.fill })
  } else {
    const { rows } = await db.query(
      `select count(*)::int as completed from ${db.schema}.audit where settlement = 'completed'`,
    )
    process.send(rows[0])
  }
}
