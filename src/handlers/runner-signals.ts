import type { Runner } from '../consume/runner.ts'
import type { Core } from '../core/core.ts'
import type { Served } from '../subscriptions/served.ts'

export interface RunnerSignalsNeeds {
  readonly runner: Runner
  readonly served: Pick<Served, 'has'>
}

/** Passes signals on to the runner: there are deliveries to lease, begin, take or hand back. */
export function listenForRunner(
  { signals }: Pick<Core, 'signals'>,
  { runner, served }: RunnerSignalsNeeds,
): void {
  signals.on('wake', () => runner.wake())
  signals.on('wakeHandlers', () => runner.wake())
  signals.on('reconnected', () => runner.wake())
  // Events of this process wake the runner without a notification from the database, unless they were handed over to it.
  signals.on('published', ({ answers, handedTo }) => {
    const isWaited = (no: number) => served.has(no) && !handedTo.has(no)
    if (answers.some(({ owed, refused }) => refused === null && owed.some(isWaited))) runner.wake()
  })
  signals.on('runMayBegin', (run) => runner.goOn(run))
  signals.on('runDropped', (run) => runner.drop(run))
  signals.on('runsLeased', ({ runs, askedAt }) => runner.take(runs, askedAt))
  signals.on('handBackUnbegun', (no) => runner.handBack(no))
}
