import { Runner } from '../consume/runner.ts'
import { Share } from '../consume/share.ts'
import type { Subscription } from '../domain/subscription.ts'
import { HttpSource } from './source.ts'
import type { Transport } from './transport.ts'
import type { WorkerConfig } from './worker.ts'
import { describe, observeWorker } from './worker-log.ts'

export interface Loop {
  stop(graceMs: number): Promise<void>
}

/** The long poll waits for work, so the runner itself hardly does; only while it has enough to do it looks rarely. */
const pollMs = 1
const idlePollMs = 250

export function startLoop(transport: Transport, config: WorkerConfig): Loop {
  const { workerId, subscription, tags, leaseSeconds, waitSeconds, log } = config
  const source = new HttpSource({
    transport,
    workerId,
    subscription,
    tags,
    leaseSeconds,
    waitSeconds,
    take: (runs, askedAt) => runner.take(runs, askedAt),
    exhausted: (delivery) =>
      log.warn(describe(delivery, 'no failures are left to it'), 'A delivery was buried'),
  })
  const runner = new Runner({ source, pollMs, idlePollMs, observe: observeWorker(log) })
  runner.add(new Share(subscriptionOf(config), config.handler, config.concurrency))
  runner.start()
  return {
    async stop(graceMs) {
      await Promise.all([runner.stop(graceMs), source.stop()])
    },
  }
}

/** What the runner needs to know of it. The rest, retries above all, is decided by the server. */
function subscriptionOf({
  subscription: name,
  leaseSeconds,
  timeoutMs,
  prefetch,
}: WorkerConfig): Subscription {
  return {
    no: 1,
    id: name,
    name,
    via: 'pull',
    types: [],
    tags: null,
    status: 'active',
    retry: { kind: 'fixed', delayMs: 0, failuresMax: Number.POSITIVE_INFINITY },
    leaseMs: leaseSeconds * 1000,
    timeoutMs,
    onExhausted: 'skip',
    maxConcurrency: prefetch ? null : Number.POSITIVE_INFINITY,
    ratePerSecond: null,
    keyConcurrency: null,
  }
}
