import type { Handler } from '../consume/attempt.ts'
import { Runner } from '../consume/runner.ts'
import { Share } from '../consume/share.ts'
import { defineQueue } from '../domain/queue-config.ts'
import type { Subscription } from '../domain/subscription.ts'
import { PosthornHttpError } from './http-error.ts'
import { HttpSource } from './http-source.ts'
import { watchForPause } from './pause-watch.ts'
import type { Transport } from './transport.ts'
import { describe, observeWorker, type WorkerLog } from './worker-log.ts'

/** The checked options. */
export interface WorkerConfig {
  readonly workerId: string
  readonly tags: string | readonly string[] | undefined
  readonly subscription: string
  readonly concurrency: number
  readonly leaseSeconds: number
  readonly waitSeconds: number
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

/** Statuses that say that the key, the subscription or the tags are wrong: another try would not help. */
const refusals = new Set([400, 401, 403, 404, 422])

/** The server lets long polls wait, so the runner need not: it looks rarely only while it has enough to do. */
const pollMs = 1
const idlePollMs = 250

export function startLoop(transport: Transport, config: WorkerConfig): WorkerLoop {
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
      log.warn(describe(delivery, 'the event has no attempts left'), 'A delivery was buried'),
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
      // The runner asks for more at once: a paused queue gives out nothing, and the long poll ends when it goes on.
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

/** A stand-in for the subscription, as the runner needs one. The server decides the rest, such as retries. */
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
