import { onTestFinished } from 'vitest'
import { Runner, type RunnerOptions } from '../../src/consume/runner.ts'
import { type MakeAttempt, Share } from '../../src/consume/share.ts'
import type { Source } from '../../src/consume/source.ts'
import type { LeasedRun } from '../../src/domain/delivery.ts'
import type { StoredEvent } from '../../src/domain/stored-event.ts'
import { defineSubscription, type Subscription } from '../../src/domain/subscription.ts'

export interface FakeRunnerOptions extends Partial<Source> {
  readonly pollMs?: number
  readonly settled?: RunnerOptions['observe']['settled']
  readonly lost?: RunnerOptions['observe']['lost']
}

/** A runner without a database: what is not given is what a source does that has nothing and takes everything. */
export function openRunner({ pollMs = 10, settled, lost, ...given }: FakeRunnerOptions): Runner {
  const source: Source = {
    lease: async () => ({ runs: [], again: false }),
    peek: async () => false,
    settle: async (settlements) => settlements.map(() => 'settled'),
    heartbeat: async (beats) => beats.map(({ run }) => ({ run, renewed: true, cancelled: [] })),
    release: async () => undefined,
    releaseSome: async () => undefined,
    isolate: async () => undefined,
    completeIn: async () => false,
    isCompleted: async () => false,
    ...given,
  }
  const quiet = () => undefined
  const observe = { settled: settled ?? quiet, lost: lost ?? quiet, trouble: quiet }
  const runner = new Runner({ source, pollMs, idlePollMs: pollMs, observe })
  onTestFinished(() => runner.stop(0))
  return runner
}

export function shareOf(no: number, via: 'handler' | 'webhook', attempt: MakeAttempt): Share {
  const definition = defineSubscription(via, ['t'], { name: `n${no}` })
  const subscription: Subscription = { ...definition, no, id: `id ${no}`, status: 'active', ramp: null }
  return new Share(subscription, attempt, 10)
}

/** A lane of one event, leased. */
export function leasedRun(id: number, about: Partial<LeasedRun> = {}): LeasedRun {
  const leasedUntil = new Date()
  const run: LeasedRun = {
    ...{ id, subscription: 1, token: 1, laneKey: 'k', suspect: false, leasedUntil, deliveries: [] },
    ...about,
  }
  run.deliveries.push({ run, event: { id, payloadText: '1' } as StoredEvent, attempt: 1, failures: 0 })
  return run
}
