import type { Runner } from '../consume/runner.ts'
import type { Core } from '../core/core.ts'
import type { Served } from '../subscriptions/served.ts'

export interface RunnerSignalsNeeds {
  readonly runner: Runner
  readonly served: Pick<Served, 'has'>
}

/** The runner hears what it can lease, begin, take and hand back. */
export function listenForRunner(
  { signals }: Pick<Core, 'signals'>,
  { runner, served }: RunnerSignalsNeeds,
): void {
  signals.on('wake', () => runner.wake())
  signals.on('wakeHandlers', () => runner.wake())
  signals.on('reconnected', () => runner.wake())
  // Within the process no database is needed to wake up, and what was handed over needs no waking.
  signals.on('published', ({ answers, handedTo }) => {
    const isWaited = (no: number) => served.has(no) && !handedTo.has(no)
    if (answers.some(({ owed, refused }) => refused === null && owed.some(isWaited))) runner.wake()
  })
  signals.on('runMayBegin', (run) => runner.goOn(run))
  signals.on('runDropped', (run) => runner.drop(run))
  signals.on('runsLeased', ({ runs, askedAt }) => runner.take(runs, askedAt))
  signals.on('handBackUnbegun', (no) => runner.handBack(no))
}
