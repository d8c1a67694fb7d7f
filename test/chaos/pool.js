/** Connections of an application's own, to whichever server of its address takes writes. */
import pg from 'pg'
import { urlsOfHosts } from '../../dist/db/database-url.js'

/** @param {object | string} connection an address, or a URL that may name several hosts */
export function openPool(connection, options) {
  const addresses =
    typeof connection === 'string'
      ? urlsOfHosts(connection, 'connection').map((connectionString) => ({ connectionString }))
      : [connection]
  const pools = addresses.map((address) => new pg.Pool({ ...address, ...options }))
  for (const pool of pools) {
    pool.on('error', () => undefined) // a database that is killed on purpose
    pool.on('connect', (client) => client.on('error', () => undefined)) // the same, while we have it
  }
  return pools.length === 1 ? pools[0] : ofSeveral(pools)
}

function ofSeveral(pools) {
  let at = 0
  const connect = async () => {
    let trouble
    for (let tries = 0; tries < pools.length; tries++) {
      try {
        return await primaryOf(pools[at])
      } catch (error) {
        trouble = error
        at = (at + 1) % pools.length
      }
    }
    throw trouble
  }
  return {
    connect,
    async query(text, values) {
      const client = await connect()
      try {
        const result = await client.query(text, values)
        client.release()
        return result
      } catch (error) {
        client.release(true)
        throw error
      }
    },
    end: () => Promise.all(pools.map((pool) => pool.end())),
  }
}

async function primaryOf(pool) {
  const client = await pool.connect()
  try {
    const { rows } = await client.query('select pg_is_in_recovery() as "isStandby"')
    if (!rows[0].isStandby) return client
  } catch (error) {
    client.release(true)
    throw error
  }
  client.release()
  throw new Error('The server is a standby.')
}
