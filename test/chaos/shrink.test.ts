import { expect, test } from 'vitest'

interface Tried {
  readonly only: string[]
  readonly faults: string
}
type Shrink = (
  run: (tried: Tried) => Promise<{ violations: { rule: string }[]; history: object[] }>,
  options: { rule: string; only: string[]; untilMs: number; now?: () => number },
) => Promise<Tried>

const { shrink } = (await import(new URL('./shrink.js', import.meta.url).href)) as { shrink: Shrink }

test('what has nothing to do with a violation is dropped', async () => {
  const needs = ['publish.many', 'cancel.ids']
  const run = async ({ only }: Tried) => ({
    violations: needs.every((name) => only.includes(name)) ? [{ rule: 'asleep' }] : [],
    history: [],
  })
  const only = ['publish.library', 'publish.many', 'reset', 'cancel.one', 'cancel.ids', 'replay', 'purge']
  const smallest = await shrink(run, { rule: 'asleep', only, untilMs: 1, now: () => 0 })
  expect(smallest).toMatchObject({ only: needs, faults: 'none' })
})

test('nothing is dropped once the time is over', async () => {
  const run = async () => ({ violations: [{ rule: 'asleep' }], history: [] })
  const smallest = await shrink(run, { rule: 'asleep', only: ['reset', 'purge'], untilMs: 0, now: () => 1 })
  expect(smallest).toMatchObject({ only: ['reset', 'purge'], faults: 'all' })
})
