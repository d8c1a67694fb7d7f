import type { RunnerObserver } from '../consume/runner-parts.ts'
import type { Core } from '../core/core.ts'
import type { LeasedDelivery, LeasedRun } from '../domain/delivery.ts'
import { idJump } from '../domain/id.ts'
import type { Settlement } from '../domain/settlement.ts'
import type { Subscription } from '../domain/subscription.ts'
import type { MemoryObserver } from '../memory/memory-observer.ts'
import type { PullSettled } from '../pull/pull-settler.ts'
import type { RetentionObserver } from '../retention/prune.ts'
import type { UpkeepObserver } from '../upkeep/upkeep.ts'
import type { PushObserver } from '../webhooks/send/push.ts'
import { Alerts } from './alerts.ts'
import type { Burial } from './hub-events.ts'
import type { Logger } from './log.ts'
import { observePickup } from './pickup.ts'

/** Turns what the services tell into log lines, metrics, events of the hub and alerts: each has an observer of its own. */
export function createObservation(core: Core, served: { get(no: number): Subscription | undefined }) {
  const { log, metrics, signals } = core
  const alerts = new Alerts({
    log,
    metrics,
    now: () => performance.now(),
    publish: (event) => signals.emitAndWait('alertRaised', event),
  })
  const hooks = { ...core, alerts, subscription: (no: number) => served.get(no) }
  observePublished(core)
  return {
    alerts,
    buried: guard((burial: Burial) => tellBurial(hooks, burial), log),
    leased: (run: LeasedRun, leaseMs: number) => observePickup(metrics, run, leaseMs),
    pullSettled: observePull(hooks),
    runner: observeRunner(hooks),
    push: observePush(hooks),
    memory: observeMemory(hooks),
    retention: observeRetention(hooks),
    upkeep: observeUpkeep(hooks),
  }
}

interface Hooks extends Pick<Core, 'events' | 'metrics' | 'log' | 'signals' | 'trouble'> {
  readonly alerts: Alerts
  /** By number; undefined for subscriptions that this process does not serve. */
  readonly subscription: (no: number) => Subscription | undefined
}

/** A listener of the hub may throw. That must not stop the work, so the error is only logged. */
function guard<Args extends unknown[]>(tell: (...args: Args) => void, log: Logger): (...args: Args) => void {
  return (...args) => {
    try {
      tell(...args)
    } catch (error) {
      log.error({ err: error }, 'A listener threw')
    }
  }
}

function guardAll<Observer extends object>(observer: Observer, log: Logger): Observer {
  const guarded = Object.entries(observer).map(([name, tell]) => [name, guard(tell, log)])
  return Object.fromEntries(guarded) as Observer
}

/** Reports a burial. Every burial is logged, also when its alert is held back. */
function tellBurial({ events, alerts, log }: Hooks, burial: Burial): void {
  const { subscription, eventId, type, stopsLane: orderingKey } = burial
  const reason = firstLine(burial.reason)
  log.warn({ subscription, eventId, type, reason }, 'A delivery was buried')
  // No subscription has the empty name: it counts alerts about events that no subscription wanted.
  const about = { subscription: subscription ?? '', type }
  alerts.raise({ ...about, kind: 'posthorn.delivery.buried', details: { subscription, eventId, reason } })
  if (orderingKey !== null) {
    alerts.raise({ ...about, kind: 'posthorn.lane.blocked', details: { eventId, orderingKey } })
  }
  // Guarded, so that the other burials of a batch are reported even if a listener throws.
  const tell = () => void events.emit('buried', { subscription, eventId, reason: burial.reason })
  guard(tell, log)()
}

interface FailedAttempt extends Omit<Burial, 'reason' | 'subscription'> {
  readonly subscription: string
  readonly attempt?: number
  readonly settlement: Extract<Settlement, { kind: 'retry' | 'bury' }>
}

function tellFailure(hooks: Hooks, { settlement, attempt, stopsLane, ...delivery }: FailedAttempt): void {
  const { reason, failures } = settlement
  if (settlement.kind === 'bury') {
    tellBurial(hooks, { ...delivery, reason, stopsLane })
    return
  }
  const { afterMs } = settlement
  hooks.log.warn({ ...delivery, attempt, failures, afterMs, reason: firstLine(reason) }, 'An attempt failed')
}

function observePublished({ metrics, events, signals }: Core): void {
  signals.on('published', ({ answers }) => {
    const stored = answers.filter(({ refused }) => refused === null)
    metrics.published.inc(stored.length)
    const unrouted = stored.filter(({ owed }) => owed.length === 0)
    if (unrouted.length > 0) metrics.unrouted.inc(unrouted.length)
    if (events.listenerCount('published') > 0) events.emit('published', stored)
  })
}

function observeRunner(hooks: Hooks): RunnerObserver {
  const { events, metrics, log, trouble, subscription } = hooks
  const nameOf = (delivery: LeasedDelivery) => subscription(delivery.run.subscription)?.name ?? 'unknown'
  const observer: RunnerObserver = {
    settled: ({ delivery, settlement, executionMs }) => {
      const name = nameOf(delivery)
      metrics.attempted.of(name, settlement.kind).count(executionMs)
      const { id: eventId, type, orderingKey } = delivery.event
      if (settlement.kind === 'retry' || settlement.kind === 'bury') {
        const { attempt, run } = delivery
        const blocks = subscription(run.subscription)?.onExhausted === 'block'
        const stopsLane = blocks ? orderingKey : null
        tellFailure(hooks, { subscription: name, eventId, type, attempt, settlement, stopsLane })
      }
      if (events.listenerCount('settled') === 0) return
      events.emit('settled', { subscription: name, eventId, settlement: settlement.kind, executionMs })
    },
    lost: (delivery, why) => {
      const lost = { subscription: nameOf(delivery), eventId: delivery.event.id, why }
      metrics.leasesLost.inc({ subscription: metrics.label(lost.subscription) })
      log.warn(lost, 'A lease was lost')
      events.emit('lost', lost)
    },
    trouble,
  }
  return guardAll(observer, log)
}

/** Observes what workers elsewhere settle. */
function observePull(hooks: Hooks): (settled: PullSettled) => void {
  const { events, metrics, log } = hooks
  return guard(({ subscription, eventId, type, orderingKey, stopsLane, settlement, executionMs }) => {
    metrics.attempted.of(subscription, settlement.kind).count(executionMs)
    if (settlement.kind === 'retry' || settlement.kind === 'bury') {
      const lane = stopsLane ? orderingKey : null
      tellFailure(hooks, { subscription, eventId, type, settlement, stopsLane: lane })
    }
    if (events.listenerCount('settled') === 0) return
    const ms = executionMs ?? 0
    events.emit('settled', { subscription, eventId, settlement: settlement.kind, executionMs: ms })
  }, log)
}

function observePush({ metrics, alerts, log, trouble }: Hooks): PushObserver {
  const results = new Map<string, { inc(): void }>()
  return {
    sent: (result) => {
      let counter = results.get(result)
      if (counter === undefined) {
        counter = metrics.webhooks.labels({ result })
        results.set(result, counter)
      }
      counter.inc()
    },
    blocked: (found) => log.warn(found, 'Refused to send a webhook to an address that is not allowed'),
    changed: ({ name, before, status, error }) => {
      log.warn({ subscription: name, before, status, error }, 'The status of a webhook subscriber changed')
      if (status !== 'suspended' && status !== 'paused') return
      const kind = `posthorn.subscription.${status}` as const
      alerts.raise({ kind, subscription: name, details: { reason: error } })
    },
    trouble,
  }
}

function observeMemory(hooks: Hooks): MemoryObserver {
  const { metrics, log } = hooks
  return {
    persisted: (ms) => metrics.memoryPersistSeconds.observe(ms / 1000),
    lost: (name, unpersisted) =>
      log.error({ subscription: name, unpersisted }, 'Another process has taken a memory queue'),
    dropped: (name, unpersisted) =>
      log.error(
        { subscription: name, unpersisted },
        'A memory queue stopped while the database was away: events that were not persisted are lost',
      ),
    recovered: (name, events) =>
      log.info({ subscription: name, events }, 'Recovered unsettled events of a memory queue'),
    buried: guard((burial: Burial) => tellBurial(hooks, burial), log),
  }
}

function observeRetention({ metrics, log }: Hooks): RetentionObserver {
  return {
    pruned: (table, rows) => metrics.pruned.inc({ table }, rows),
    failed: (error, table) => {
      metrics.pruneFailures.inc()
      log.error({ err: error, table }, 'Pruning failed: old rows stay until the next step')
    },
  }
}

/** Upkeep also reports deliveries of subscriptions that this process does not serve. */
function observeUpkeep(hooks: Hooks): UpkeepObserver {
  const { events, metrics, alerts, log, signals, trouble } = hooks
  const wake = () => signals.emit('wake')
  const observer: UpkeepObserver = {
    reclaimed: (runs, charged) => {
      metrics.leasesExpired.inc(runs)
      log.warn({ runs, charged: charged.length }, 'Took back leases of workers that vanished')
      for (const { name, type, eventId, worker, failures, buried, stopsLane } of charged) {
        log.warn({ subscription: name, eventId, worker, failures }, 'An attempt failed: its lease expired')
        const reason = 'the lease expired'
        if (buried) tellBurial(hooks, { subscription: name, eventId, type, reason, stopsLane })
      }
      wake()
    },
    expired: (deliveries) => {
      metrics.expired.inc(deliveries.length)
      for (const { name, type, eventId } of deliveries) {
        alerts.raise({ kind: 'posthorn.delivery.expired', subscription: name, type, details: { eventId } })
      }
      wake()
    },
    unrouted: (letters) => {
      for (const letter of letters) tellBurial(hooks, { ...letter, subscription: null, stopsLane: null })
    },
    pressed: (changes) => {
      for (const { name, before, level, depth, isRefusing } of changes) {
        log.info({ queue: name, before, level, depth, isRefusing }, 'Queue backpressure level changed')
        if (level !== 'full' || before === 'full') continue
        alerts.raise({ kind: 'posthorn.queue.full', subscription: name, details: { depth, isRefusing } })
      }
    },
    drained: (queues) => {
      for (const queue of queues) {
        log.info({ queue }, 'A queue is drained')
        events.emit('drained', { queue })
      }
    },
    asleep: (sleepers) => {
      for (const { kind, name, key } of sleepers) {
        metrics.wakeUpsLost.inc({ kind })
        log.error(
          { subscription: name, kind, key },
          'A wake-up was lost: deliveries waited and nothing would have sent them. Upkeep has woken them; please report this defect.',
        )
      }
      wake()
    },
    overdue: (attempts) => {
      for (const { key, name, type, eventId, worker, pickedAt } of attempts) {
        const details = { eventId, workerId: worker, pickedAt: pickedAt.toISOString() }
        alerts.raise({ kind: 'posthorn.attempt.overdue', subscription: name, type, details, key })
      }
    },
    promoted: (timeline) => {
      log.warn({ timeline, idJump }, 'Another database server took over: event ids continue after a jump')
      const details = { subscription: null, timeline, idJump }
      const key = `timeline ${timeline}`
      alerts.raise({ kind: 'posthorn.database.promoted', subscription: '', details, key })
    },
    abandoned: (names) => {
      for (const name of names) {
        alerts.raise({ kind: 'posthorn.subscription.abandoned', subscription: name, details: {} })
      }
    },
    trouble,
  }
  return guardAll(observer, log)
}

function firstLine(reason: string): string {
  return reason.split('\n', 1)[0] ?? ''
}
