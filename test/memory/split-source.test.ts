import { expect, test } from 'vitest'
import type { Beat, LeaseAnswer, Source } from '../../src/consume/source.ts'
import type { LeasedRun } from '../../src/domain/delivery.ts'
import { Adoption } from '../../src/memory/adoption.ts'
import { MemoryRun } from '../../src/memory/entry.ts'
import { HeldBack } from '../../src/memory/held-back.ts'
import type { MemorySource } from '../../src/memory/memory-source.ts'
import { SplitSource } from '../../src/memory/split-source.ts'

/** A run in memory whose one delivery is in memory still, or has a run in the database. */
function memoryRun(adoptedAs?: LeasedRun): MemoryRun {
  const run = Object.create(MemoryRun.prototype) as MemoryRun
  const adoption = adoptedAs === undefined ? null : new Adoption()
  if (adoptedAs !== undefined) adoption?.decide(adoptedAs)
  return Object.assign(run, { deliveries: [{ entry: { adoption } }] })
}

const storedRun = (id: number, laneKey: string | null = null): LeasedRun => ({
  ...{ id, token: id, subscription: 1, laneKey, suspect: false, leasedUntil: new Date(), deliveries: [] },
})

function splitSource(database: Partial<Source>, heldBack = new HeldBack(nobody)) {
  const inMemory = {
    lease: () => [],
    heartbeat: async (beats: readonly Beat[]) =>
      beats.map(({ run }) => ({ run, renewed: true, cancelled: [] })),
  }
  return new SplitSource({
    memory: inMemory as unknown as MemorySource,
    database: database as Source,
    queues: new Map(),
    heldBack,
    signals: { emitAndWait: async () => undefined },
    trouble: () => undefined,
  })
}
const nobody = { queues: new Map(), signals: { emit: () => undefined } }

test('while the database is away attempts in memory keep their leases, although others were moved to it', async () => {
  const away = new Error('away')
  const source = splitSource({ heartbeat: () => Promise.reject(away) })
  const [inMemory, moved] = [memoryRun(), memoryRun(storedRun(1))]
  const held = await source.heartbeat([inMemory, moved].map((run) => ({ run, begun: [] })))
  expect(held).toEqual([
    { run: inMemory, renewed: true, cancelled: [] },
    { run: moved, renewed: false, cancelled: [], unknown: { error: away, waitMs: 0 } },
  ])
})

test('a lane that was asked for before its queue was moved does not begin, and goes back', async () => {
  const heldBack = new HeldBack(nobody)
  const released: LeasedRun[] = []
  const [lane, loose] = [storedRun(1, 'k'), storedRun(2)]
  const source = splitSource(
    {
      lease: async (): Promise<LeaseAnswer> => {
        heldBack.moved(1)
        return { runs: [lane, loose], again: false }
      },
      release: async (runs) => void released.push(...runs),
    },
    heldBack,
  )
  const want = { subscription: 1, eventsMax: 10, runsMax: 10, laneMax: 10, suspects: true }
  const { runs } = await source.lease([want])
  expect(runs).toEqual([loose])
  expect(released).toEqual([lane])
})
