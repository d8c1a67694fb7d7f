import { expect, test } from 'vitest'
import { useServers } from '../support/http.ts'
import {
  type Delivered,
  openDispatching,
  openInbox,
  publish,
  subscribe,
  until,
} from '../webhooks/send/setup.ts'

const servers = useServers('failover_sequences')

/** As a promoted standby finds a lane whose last numbers only the lost server had given out. */
async function promote({ db }: Awaited<ReturnType<typeof openDispatching>>, latest: number) {
  await db.query(
    `update ${db.schema}.lane_counters set timeline = 77, latest = $1, delivered = 1, checked = 1`,
    [latest],
  )
  await db.query(`delete from ${db.schema}.lane_numbers where sequence > $1`, [latest])
}

const read = ({ headers }: Delivered) => ({
  epoch: Number(headers['posthorn-lane-epoch']),
  sequence: headers['posthorn-sequence'],
  previous: headers['posthorn-previous-sequence'],
  isLate: headers['posthorn-out-of-order'] !== undefined,
})

test('after a failover no number of a lane is given to another event: the lane begins a new epoch', async () => {
  const server = await openDispatching(servers)
  const inbox = await openInbox()
  await subscribe(server, inbox.url)
  for (let n = 1; n <= 2; n++) await publish(server, { payload: n, ordering_key: 'k' })
  await inbox.count(2)
  await until(async () => (await server.call('GET', '/events/2')).json.status === 'COMPLETED')
  await promote(server, 1)
  for (let n = 3; n <= 4; n++) await publish(server, { payload: n, ordering_key: 'k' })
  const [first, second, third, fourth] = (await inbox.count(4)).map(read)
  expect(second).toEqual({ epoch: first?.epoch, sequence: '2', previous: '1', isLate: false })
  expect(third?.epoch).toBeGreaterThan(first?.epoch as number)
  expect(third).toMatchObject({ sequence: '1', previous: '0', isLate: false })
  expect(fourth).toEqual({ epoch: third?.epoch, sequence: '2', previous: '1', isLate: false })
})

test('a delivery that is tried again after a failover keeps its number, and is not called late', async () => {
  const server = await openDispatching(servers)
  let answers = 0
  const inbox = await openInbox(() => (++answers === 2 ? 500 : 200))
  await subscribe(server, inbox.url)
  for (let n = 1; n <= 3; n++) await publish(server, { payload: n, ordering_key: 'k' })
  await inbox.count(2)
  await until(async () => (await server.call('GET', '/events/2')).json.retry_count === 1)
  await promote(server, 2)
  await server.clock.advance(5_600)
  const [, tried, again, next] = (await inbox.count(4)).map(read)
  expect(again).toEqual(tried)
  expect(next?.epoch).toBeGreaterThan(tried?.epoch as number)
  expect(next).toMatchObject({ sequence: '1', previous: '0', isLate: false })
})
