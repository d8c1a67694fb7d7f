import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import type { TestServer } from '../../support/http.ts'
import { publish, until } from './setup.ts'

export interface Outage {
  readonly url: string
  /** The event of each request, in the order in which they came. */
  readonly attempts: string[]
  /** Under way together, at most. */
  most: number
  /** Null: every connection is closed before an answer. */
  answer: ((response: ServerResponse) => void) | null
  count(attempts: number): Promise<void>
}

/** An endpoint that is away until it is given an answer. */
export async function openOutage(): Promise<Outage> {
  let underWay = 0
  const server = createServer((request, response) => {
    underWay++
    outage.most = Math.max(outage.most, underWay)
    response.on('close', () => underWay--)
    request.resume().on('end', () => {
      outage.attempts.push(String(request.headers['posthorn-event-id']))
      if (outage.answer === null) request.socket.destroy()
      else outage.answer(response)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(async () => {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  })
  const { port } = server.address() as AddressInfo
  const outage: Outage = {
    url: `http://127.0.0.1:${port}/hook`,
    attempts: [],
    most: 0,
    answer: null,
    count: (count) => until(() => outage.attempts.length >= count, `${count} attempts`),
  }
  return outage
}

export async function publishMany(server: TestServer, count: number): Promise<number[]> {
  const ids: number[] = []
  for (let n = 0; n < count; n++) ids.push(await publish(server))
  return ids
}

/** It is suspended, and what was under way then is settled. */
export async function suspended(server: TestServer, id: string): Promise<void> {
  const isSuspended = async () => (await server.call('GET', `/subscribers/${id}`)).json.status === 'suspended'
  await until(isSuspended, 'the suspension')
  await nothingUnderWay(server)
}

export async function completed(server: TestServer, event: number): Promise<void> {
  const isCompleted = async () => (await server.call('GET', `/events/${event}`)).json.status === 'COMPLETED'
  await until(isCompleted, `event ${event}`)
}

export async function nothingUnderWay(server: TestServer): Promise<void> {
  await until(async () => {
    const { rows } = await server.db.query(
      `select count(*)::int as leased from ${server.db.schema}.runs where state = 'leased'`,
    )
    return rows[0]?.leased === 0
  }, 'the end of what is under way')
}

export async function allDelivered(server: TestServer, count: number): Promise<void> {
  await until(async () => {
    const { rows } = await server.db.query(
      `select count(*)::int as done from ${server.db.schema}.audit where settlement = 'completed'`,
    )
    return rows[0]?.done === count
  }, `${count} deliveries`)
}
