import { ServerResponse } from 'node:http'
import { setImmediate as turn } from 'node:timers/promises'
import { expect, vi } from 'vitest'
import type { Json, Pulling } from './pulling.ts'

/** Clients that hang up at any time from before their event is stored until after it is sent: nothing is stuck or counted. */
export async function hangUpAsGiven(pulling: Pulling, rounds: number): Promise<void> {
  const { hub, url } = pulling.server
  const sent = listenToAnswers()
  const outcomes: object[] = []
  let handedBack = 0
  for (let round = 0; round < rounds; round++) {
    const gone = new AbortController()
    const query = `tags=a&worker_id=hasty-${round}&wait=60&lease=600`
    const answer = fetch(`${url}/events/subscribe?${query}`, { signal: gone.signal }).then(
      (response) => response.text(),
      () => undefined,
    )
    await until(() => hub.pull.waiting === 1)
    const publishing = hub.publish({ title: 'x', tags: ['a'], payload: round })
    const startedAt = performance.now()
    // From before it is stored until after it is sent.
    await until(() => performance.now() - startedAt >= (round % 50) * 0.2)
    const isSent = sent.has(`hasty-${round}`)
    gone.abort()
    await answer.catch(() => undefined)
    const { id } = await publishing
    // What was on its way already is the client's, unless the client closed without reading it.
    const worker = `hasty-${round}`
    const isKept = isSent && (await pulling.say('complete', id, { worker_id: worker })).status === 200
    if (!isKept) {
      handedBack++
      const lease = await pulling.lease('patient', { wait: 20, lease: 600 })
      expect(lease).toMatchObject({ id, attempt: 1, retry_count: 0 })
      outcomes.push({ event_id: id, outcome: 'complete', worker_id: 'patient' })
    }
  }
  for (const result of await pulling.settle(outcomes)) expect(result).toMatchObject({ status: 200 })
  expect(await pulling.subscribe({})).toMatchObject({ status: 204 })
  const { json } = await pulling.server.call('GET', '/events?status=COMPLETED&limit=200')
  expect(json.events.filter((event: Json) => event.retry_count === 0)).toHaveLength(rounds)
  expect(handedBack).toBeGreaterThan(0)
}

/** The workers whose answers are sent from now on, told just before each is. */
export function listenToAnswers(tell: (url: string) => unknown = () => undefined): Set<string> {
  const workers = new Set<string>()
  const end = ServerResponse.prototype.end
  vi.spyOn(ServerResponse.prototype, 'end').mockImplementation(function (
    this: ServerResponse,
    ...args: unknown[]
  ) {
    const { url = '' } = this.req
    tell(url)
    workers.add(new URL(url, 'http://localhost').searchParams.get('worker_id') ?? '')
    return (end as (...args: unknown[]) => ServerResponse).apply(this, args)
  } as never)
  return workers
}

/** For what this process knows by itself: as often as its event loop turns. */
export async function until(holds: () => boolean): Promise<void> {
  const startedAt = performance.now()
  while (!holds()) {
    if (performance.now() - startedAt > 60_000) throw new Error('Not so after a minute')
    await turn()
  }
}
