import pg from 'pg'
import { expect, test } from 'vitest'
import { useHubs } from '../support/hub.ts'
import { eventually } from '../support/signal.ts'

const hubs = useHubs('listening')
const killsMax = 4

test.each([
  { finds: 'by polling', pollMs: 50, idlePollMs: 50 },
  { finds: 'by listening again', pollMs: 60_000, idlePollMs: 60_000 },
])('work is found $finds when the listening connection is killed', async ({ finds, ...polling }) => {
  const schema = `listening_${polling.pollMs}`
  const { hub } = await hubs.open({ schema, ...polling })
  const seen = new Set<unknown>()
  hub.on('t', { name: 'n' }, (event) => void seen.add(event.payload))
  await hub.start()
  // Another hub publishes, as another process would: only a notification or a poll can tell the first.
  const { hub: publisher } = await hubs.open({ schema })
  const client = new pg.Client(hubs.connection)
  await client.connect()
  let published = 0
  const publishAndWait = async () => {
    const payload = ++published
    await publisher.publish({ type: 't', payload })
    await eventually(`event ${payload} is handled`, () => seen.has(payload))
  }
  let killed: number | undefined
  for (let kills = 0; kills < killsMax; kills++) {
    let listener: number | undefined
    await eventually('there is a listening connection again', async () => {
      listener = await listenerPid(client)
      return listener !== undefined && listener !== killed
    })
    await publishAndWait()
    const { rows } = await client.query('select pg_terminate_backend($1, 5000) as gone', [listener])
    expect(rows[0].gone).toBe(true)
    killed = listener
    await publishAndWait()
  }
  process.stdout.write(`crash: listening: found ${finds}: killed ${killsMax} times, handled ${seen.size}\n`)
  expect(seen.size).toBe(2 * killsMax)
  await client.end()
})

async function listenerPid(client: pg.Client): Promise<number | undefined> {
  const { rows } = await client.query(
    `select pid from pg_stat_activity
    where datname = current_database() and application_name like '% listener'
    order by backend_start desc limit 1`,
  )
  return rows[0]?.pid
}
