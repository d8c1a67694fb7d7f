import { expect, test } from 'vitest'
import { PosthornClient } from '../../src/client/index.ts'

/** What JavaScript may pass to the client is refused by name, before anything is sent. */

const sent: string[] = []
const client = new PosthornClient({
  url: 'http://hub.example',
  retries: 0,
  fetch: async (url) => {
    sent.push(String(url))
    throw new Error('sent')
  },
})
/** As JavaScript would pass it. */
const given = <T>(value: unknown) => value as T

type Calls = [call: string, name: string, ask: () => unknown][]

async function refusals(calls: Calls): Promise<void> {
  sent.length = 0
  const answers = await Promise.all(calls.map(async ([call, , ask]) => [call, await refusedName(ask)]))
  expect(answers).toEqual(calls.map(([call, name]) => [call, name]))
  expect(sent).toEqual([])
}

async function refusedName(ask: () => unknown): Promise<unknown> {
  try {
    await ask()
    return 'accepted'
  } catch (error) {
    const { code, details, message } = error as Error & { code?: string; details?: Record<string, unknown> }
    if (code === 'BAD_EVENT') return `event: ${details?.field}`
    return code === 'BAD_OPTION' ? details?.option : message
  }
}

test('an id that holds a path does not lead to another event or subscriber', async () => {
  const eventIds: unknown[] = ['1/../1343', '7', 1.5, 0, -1, Number.NaN, undefined, null, 2 ** 53]
  for (const value of eventIds) {
    const id = given<number>(value)
    await refusals([
      ['event', 'id', () => client.event(id)],
      ['reset', 'id', () => client.reset(id)],
      ['cancel', 'id', () => client.cancel(id)],
      ['start', 'lease.id', () => client.start({ id })],
      ['heartbeat', 'lease.id', () => client.heartbeat({ id })],
      ['complete', 'lease.id', () => client.complete({ id })],
      ['fail', 'lease.id', () => client.fail({ id })],
      ['release', 'lease.id', () => client.release({ id })],
      ['settle', 'outcomes[0].lease.id', () => client.settle([{ lease: { id }, outcome: 'complete' }])],
    ])
  }
  for (const value of ['', '.', '..', undefined, 5]) {
    const id = given<string>(value)
    const { subscribers } = client
    await refusals([
      ['get', 'id', () => subscribers.get(id)],
      ['update', 'id', () => subscribers.update(id, {})],
      ['delete', 'id', () => subscribers.delete(id)],
      ['pause', 'id', () => subscribers.pause(id)],
      ['resume', 'id', () => subscribers.resume(id)],
    ])
  }
})

test('an argument of the wrong form, or an option that a call does not have, is refused by name', async () => {
  const event = { type: 'a', payload: 1 }
  const lease = { id: 1 }
  await refusals([
    ['publish(null)', 'event: the event', () => client.publish(given(null))],
    ['publish(text)', 'event: the event', () => client.publish(given('a'))],
    ['publish([])', 'event: the event', () => client.publish(given([]))],
    ['two payloads', 'event: payload', () => client.publish(given({ ...event, payloadText: '2' }))],
    ['payloadText: 5', 'event: payloadText', () => client.publish(given({ type: 'a', payloadText: 5 }))],
    ['publish(e, [])', 'publish', () => client.publish(event, given([]))],
    [
      'publishMany with a hole',
      'event: events[0]',
      () => client.publishMany(Object.assign([], { 1: event })),
    ],
    ['publishMany([e, null])', 'event: events[1]', () => client.publishMany(given([event, null]))],
    [
      'a field in a batch',
      'event: events[1].delay',
      () => client.publishMany([event, given({ ...event, delay: 1 })]),
    ],
    ['settle(text)', 'outcomes', () => client.settle(given('x'))],
    ['settle([5])', 'outcomes[0].lease', () => client.settle(given([5]))],
    ['settle without a lease', 'outcomes[0].lease', () => client.settle(given([{ outcome: 'complete' }]))],
    ['complete(5)', 'lease', () => client.complete(given(5))],
    ['complete(null)', 'lease', () => client.complete(given(null))],
    ['complete(lease, null)', 'complete', () => client.complete(lease, given(null))],
    ['complete', 'statuscode', () => client.complete(lease, given({ statuscode: 200 }))],
    ['fail', 'error', () => client.fail(lease, given({ error: 'x' }))],
    ['heartbeat', 'lease', () => client.heartbeat(lease, given({ lease: 5 }))],
    ['start', 'sginal', () => client.start(lease, given({ sginal: 5 }))],
    ['cancel', 'reson', () => client.cancel(1, given({ reson: 'x' }))],
    ['cancelMany', 'limitt', () => client.cancelMany({ type: 'a' }, given({ limitt: 5 }))],
    ['cancelMany(filter)', 'types', () => client.cancelMany(given({ types: 'a' }))],
    ['cancelMany(null)', 'cancelMany', () => client.cancelMany(given(null))],
    ['subscribe', 'wait', () => client.subscribe(given({ workerId: 'w', wait: 5 }))],
    ['subscribe()', 'subscribe', () => client.subscribe(given(undefined))],
    ['listEvents', 'types', () => client.listEvents(given({ types: 'a' }))],
    ['listEvents(null)', 'listEvents', () => client.listEvents(given(null))],
  ])
})
