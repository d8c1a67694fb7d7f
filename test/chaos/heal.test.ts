import { expect, test } from 'vitest'

interface Asked {
  readonly path: string
}
interface World {
  readonly subscriberIds: ReadonlyMap<string, string>
  readonly of: () => readonly never[]
  readonly ask: (random: unknown, asked: Asked) => Promise<{ type: string; json: object }>
}
type UntilDrained = (world: World) => Promise<{ violations: readonly unknown[] }>

const { untilDrained } = (await import(new URL('./heal.js', import.meta.url).href)) as {
  untilDrained: UntilDrained
}

test('what no list shows because it moved while they were read is waited for', async () => {
  const depths = [1, 1, 0]
  const answers: Record<string, () => object> = {
    '/deliveries': () => ({ deliveries: [] }),
    '/subscribers': () => ({ subscribers: [] }),
    '/queues': () => ({ queues: [{ id: 'pulled', depth: depths.shift() }] }),
  }
  const ask = async (_: unknown, { path }: Asked) => {
    const json = answers[path.split('?')[0] ?? '']?.()
    return json === undefined ? { type: 'fail', json: {} } : { type: 'ok', json }
  }
  const { violations } = await untilDrained({ subscriberIds: new Map(), of: () => [], ask })
  expect(violations).toEqual([])
  expect(depths).toEqual([])
})
