/** Stands between a process and PostgreSQL, and counts what it asks: each simple query and each execute is one. */
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'

const simpleQuery = 0x51
const parse = 0x50
const bind = 0x42
const execute = 0x45

/** @param {{ host: string, port: number } | { connectionString: string }} database */
export async function countWire(database) {
  const counts = new Map()
  const address = addressOf(database)
  const server = createServer((client) => {
    const upstream = connect(address)
    for (const socket of [client, upstream]) socket.on('error', () => undefined).setNoDelay?.(true)
    const read = reader(counts)
    client.on('data', (bytes) => {
      read(bytes)
      upstream.write(bytes)
    })
    upstream.on('data', (bytes) => client.write(bytes))
    client.on('close', () => upstream.destroy())
    upstream.on('close', () => client.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: server.address().port,
    /** What was asked since the last call, the most frequent first: [statement, count]. */
    take() {
      const taken = [...counts].sort(([, a], [, b]) => b - a)
      counts.clear()
      return taken
    },
    stop: () => server.close(),
  }
}

function addressOf(database) {
  if ('connectionString' in database) {
    const { hostname, port } = new URL(database.connectionString)
    return { host: hostname, port: Number(port || 5432) }
  }
  const { host, port } = database
  return host.startsWith('/') ? { path: join(host, `.s.PGSQL.${port}`) } : { host, port }
}

/** Frames of one connection: the first has no type. A prepared statement goes by its name, others by their text. */
function reader(counts) {
  let rest = Buffer.alloc(0)
  let isStarted = false
  const texts = new Map()
  let bound = ''
  return (bytes) => {
    rest = Buffer.concat([rest, bytes])
    for (;;) {
      const head = isStarted ? 5 : 4
      if (rest.length < head) return
      const length = rest.readInt32BE(head - 4) + head - 4
      if (rest.length < length) return
      const type = isStarted ? rest[0] : 0
      const body = rest.subarray(head, length)
      rest = rest.subarray(length)
      isStarted = true
      if (type === simpleQuery) add(counts, firstText(body))
      if (type === parse) texts.set(firstText(body), firstText(body.subarray(firstText(body).length + 1)))
      if (type === bind) bound = firstText(body.subarray(firstText(body).length + 1))
      if (type === execute) add(counts, bound === '' ? texts.get('') : bound)
    }
  }
}

function firstText(body) {
  return body.subarray(0, body.indexOf(0)).toString()
}

function add(counts, statement = '?') {
  const name = statement.replaceAll(/\s+/g, ' ').slice(0, 80)
  counts.set(name, (counts.get(name) ?? 0) + 1)
}
