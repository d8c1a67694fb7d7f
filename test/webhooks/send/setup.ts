import { randomBytes } from 'node:crypto'
import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import { onTestFinished } from 'vitest'
import type { ServerFactory, ServerSetup, TestServer } from '../../support/http.ts'
import { httpReceiver, type Receiver } from './receiver.ts'

export const secretKey = randomBytes(32).toString('base64')

/** A server that sends webhooks, also to this machine. */
export function openDispatching(servers: ServerFactory, setup: ServerSetup = {}): Promise<TestServer> {
  return servers.open({ ...setup, hub: { secretKey, allowCidrs: '127.0.0.0/8', ...setup.hub } })
}

/** How long a busy machine may take. */
const patienceMs = 120_000

export interface Delivered {
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

export interface Inbox extends Receiver {
  /** All that came, in the order in which it came. */
  readonly all: Delivered[]
  /** Resolves when so many have come. */
  count(count: number): Promise<Delivered[]>
}

/** A receiver that remembers. `answer` gives a status, or answers by itself. */
export async function openInbox(
  answer: (delivered: Delivered, response: ServerResponse) => number | undefined = () => 204,
): Promise<Inbox> {
  const all: Delivered[] = []
  const waiting = new Set<() => void>()
  const receiver = await httpReceiver((request, response, body) => {
    const delivered = { url: request.url ?? '', headers: request.headers, body }
    all.push(delivered)
    const status = answer(delivered, response)
    if (status !== undefined) response.writeHead(status).end()
    for (const look of waiting) look()
  })
  return {
    ...receiver,
    all,
    count: (count) =>
      new Promise((resolve, reject) => {
        const give = () => {
          if (all.length < count) return
          clearTimeout(timer)
          waiting.delete(give)
          resolve(all)
        }
        const timer = setTimeout(() => reject(new Error(`Only ${all.length} of ${count} came`)), patienceMs)
        onTestFinished(() => clearTimeout(timer))
        waiting.add(give)
        give()
      }),
  }
}

/** A webhook subscriber, as it is answered. */
export async function subscribe(server: TestServer, url: string, more: object = {}) {
  const answer = await server.call('POST', '/subscribers', {
    url,
    event_types: ['note.*', 'invoice.*'],
    ...more,
  })
  if (answer.status !== 201) throw new Error(answer.text)
  return answer.json
}

export async function publish(server: TestServer, event: object = {}): Promise<number> {
  const answer = await server.call('POST', '/events', { type: 'note.made', payload: {}, ...event })
  if (answer.status !== 202) throw new Error(answer.text)
  return answer.json.id
}

/** Asks until it holds: for what nothing tells about. */
export async function until(holds: () => Promise<boolean> | boolean, what = 'it'): Promise<void> {
  const deadline = performance.now() + patienceMs
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`Waited in vain for ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** What became of one attempt. */
export interface Settled {
  readonly settlement: string
  readonly failures: number
  readonly reason: string | null
  /** From its end to when it is due again, by the clock of the database. */
  readonly waitSeconds: number | null
  readonly statusCode: number | null
  readonly errorClass: string | null
}

/** The attempts of an event that were settled, in their order. */
export async function settledOf(server: TestServer, eventId: number): Promise<Settled[]> {
  const { rows } = await server.db.query(
    `select a.settlement, a.failures, a.reason, x.status_code as "statusCode", x.error_class as "errorClass",
      extract(epoch from a.next_at - a.finished_at)::float as "waitSeconds"
    from ${server.db.schema}.audit a
    left join ${server.db.schema}.exchanges x
      on x.event_id = a.event_id and x.subscription = a.subscription and x.token = a.token
    where a.event_id = $1
    order by a.id`,
    [eventId],
  )
  return rows as unknown as Settled[]
}

/** The same when there are so many. */
export async function settledTimes(server: TestServer, eventId: number, times: number): Promise<Settled[]> {
  let settled: Settled[] = []
  await until(async () => {
    settled = await settledOf(server, eventId)
    return settled.length >= times
  }, `${times} settlements of event ${eventId}`)
  return settled
}

/** Reasons of the dead letters of an event. */
export async function deadLettersOf(server: TestServer, eventId: number): Promise<string[]> {
  const { rows } = await server.db.query(
    `select reason from ${server.db.schema}.dead_letters where event_id = $1 order by id`,
    [eventId],
  )
  return rows.map(({ reason }) => String(reason))
}
