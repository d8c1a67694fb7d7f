/**
 * The API of one process, as `posthorn serve` runs it, and beside it a route that does everything but publish: the
 * same key check, the same parsing and the same schema, then a constant answer. Told what to do by messages.
 */
const { openPosthorn } = await import('../dist/create.js')
const { createServer } = await import('../dist/http/server.js')
const { apiRoutes } = await import('../dist/http/routes/index.js')
const { readEvent } = await import('../dist/http/read-event.js')
const { KeyRing } = await import('../dist/keys/key-ring.js')
const { createKey } = await import('../dist/keys/api-keys.js')

const { database, schema } = JSON.parse(process.env.BENCH_SETUP)
const { posthorn: hub, db } = await openPosthorn({ database, schema, log: 'warn' })
await hub.start()
const { text: key } = await createKey(db, {
  ...{ name: 'bench', scopes: ['admin'], ratePerSecond: 1_000_000, actor: 'bench' },
})
const routes = apiRoutes(hub, { isDraining: () => false, version: 'bench' })
const publish = routes.find((route) => route.name === 'publishEvent')
const constant = JSON.stringify({ id: 1, status: 'PENDING', payload: { n: 1 } })
const noop = {
  ...publish,
  path: '/no-op',
  name: 'noop',
  handle: ({ bytes, caller, request }) => {
    readEvent({ headers: request.headers, body: bytes, scope: caller.id })
    return { status: 201, text: constant }
  },
}
const keys = new KeyRing({ db, adminKey: undefined })
const server = createServer({ routes: [...routes, noop], keys, log: hub.log })
const url = await server.listen({ host: '127.0.0.1', port: 0 })
process.send({ url, key })
process.once('message', async () => {
  await server.close()
  await keys.stop()
  await hub.stop()
  process.disconnect()
})
