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
