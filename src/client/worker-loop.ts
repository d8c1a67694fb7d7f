import type { Handler } from '../consume/attempt.ts'
import { Runner } from '../consume/runner.ts'
import { Share } from '../consume/share.ts'
import { defineQueue } from '../domain/queue-config.ts'
import type { Subscription } from '../domain/subscription.ts'
import { PosthornHttpError } from './http-error.ts'
import { HttpSource } from './http-source.ts'
import type { LeasingOptions } from './leasing.ts'
import { watchForPause } from './pause-watch.ts'
import type { Transport } from './transport.ts'
import { describe, observeWorker, type WorkerLog } from './worker-log.ts'

/** What the options say, checked. */
export interface WorkerConfig extends Omit<LeasingOptions, 'transport' | 'take'> {
  readonly concurrency: number
  readonly timeoutMs: number | null
  readonly prefetch: boolean
  readonly log: WorkerLog
  readonly handler: Handler
}

export interface WorkerLoop {
  stop(graceMs: number): Promise<void>
  /** Resolves with the reason once the server refuses this worker. */
  readonly refused: Promise<PosthornHttpError>
}

/** The key, the subscription or the tags are wrong: trying again does not help. */
const refusals = new Set([400, 401, 403, 404, 422])

/** The long poll waits for work, so the runner itself hardly does; only while it has enough to do it looks rarely. */
const pollMs = 1
const idlePollMs = 250

export function startLoop(transport: Transport, config: WorkerConfig): WorkerLoop {
  const { log } = config
  const source = new HttpSource({
    ...config,
    transport,
    take: (runs, askedAt) => runner.take(runs, askedAt),
    exhausted: (delivery) =>
      log.warn(describe(delivery, 'no failures are left to it'), 'A delivery was buried'),
    cancelled: (eventIds) => runner.cancel(pulled.no, eventIds),
  })
  const observe = observeWorker(log)
  const { promise: refused, trouble } = firstRefusal()
  const runner = new Runner({
    source,
    pollMs,
    idlePollMs,
    suspectsCleared: () => source.suspectsCleared(),
    observe: {
      ...observe,
      trouble(error, doing) {
        observe.trouble(error, doing)
        trouble(error, doing)
      },
    },
  })
  const pulled = subscriptionOf(config)
  const watch = watchForPause({
    unbegun: () => runner.unbegun,
    isHeld: (delivery) => source.isHeld(delivery),
    held() {
      runner.refresh({ ...pulled, status: 'paused' })
      // It asks for more at once: a paused queue gives out nothing, and the long poll hears when it goes on.
      runner.refresh(pulled)
    },
    trouble: observe.trouble,
  })
  runner.add(new Share(pulled, config.handler, config.concurrency))
  runner.start()
  return {
    refused,
    async stop(graceMs) {
      watch.stop()
      await Promise.all([runner.stop(graceMs), source.stop()])
    },
  }
}

function firstRefusal() {
  let tell: (error: PosthornHttpError) => void = () => undefined
  const promise = new Promise<PosthornHttpError>((resolve) => {
    tell = resolve
  })
  const trouble = (error: unknown, doing: string) => {
    if (doing === 'leasing' && error instanceof PosthornHttpError && refusals.has(error.status)) tell(error)
  }
  return { promise, trouble }
}

/** The subscription as the runner needs it. The server decides the rest, retries above all. */
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
    filter: null,
    orderingKey: null,
    status: 'active',
    ramp: null,
    retry: { kind: 'fixed', delayMs: 0, failuresMax: Number.POSITIVE_INFINITY },
    leaseMs: leaseSeconds * 1000,
    timeoutMs,
    onExhausted: 'skip',
    maxConcurrency: prefetch ? null : Number.POSITIVE_INFINITY,
    ratePerSecond: null,
    keyConcurrency: null,
    storage: 'database',
    queue: defineQueue({}),
  }
}
