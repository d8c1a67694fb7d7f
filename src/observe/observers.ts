import type { RunnerObserver } from '../consume/runner.ts'
import type { SettleDelivery } from '../consume/source.ts'
import type { Core } from '../core/core.ts'
import type { LeasedDelivery } from '../domain/delivery.ts'
import { idJump } from '../domain/id.ts'
import type { Subscription } from '../domain/subscription.ts'
import type { MemoryObserver } from '../memory/memory-options.ts'
import type { PullSettled } from '../pull/pull-settler.ts'
import type { UpkeepObserver } from '../upkeep/upkeep.ts'
import type { PushObserver } from '../webhooks/send/push.ts'
import type { Alerts } from './alerts.ts'
import type { AttemptCount } from './attempt-tally.ts'
import type { Burial } from './hub-events.ts'
import type { Logger } from './log.ts'
import type { Metrics } from './metrics.ts'

export interface Hooks extends Pick<Core, 'events' | 'metrics' | 'log' | 'signals'> {
  readonly alerts: Alerts
  /** By number; undefined for those that this process does not serve. */
  readonly subscription: (no: number) => Subscription | undefined
}

/** Whoever listens may throw, but what was done stays done: a listener's error is logged and goes no further. */
export function guarded<Observer extends object>(observer: Observer, log: Logger): Observer {
  const guards = Object.entries(observer).map(([name, tell]) => [name, guard(tell, log)])
  return Object.fromEntries(guards) as Observer
}

export function guard<Args extends unknown[]>(
  tell: (...args: Args) => void,
  log: Logger,
): (...args: Args) => void {
  return (...args) => {
    try {
      tell(...args)
    } catch (error) {
      log.error({ err: error }, 'A listener threw')
    }
  }
}

/** Every burial is told once, whoever buried. The log has all of them, also those whose alert is held back. */
export function tellBurial({ events, alerts, log }: Hooks, burial: Burial): void {
  const { subscription, eventId, type, stopsLane: orderingKey } = burial
  const reason = firstLine(burial.reason)
  log.warn({ subscription, eventId, type, reason }, 'A delivery was buried')
  // The empty name is no subscription's: alerts about events that nobody wanted are counted by themselves.
  const about = { subscription: subscription ?? '', type }
  alerts.raise({ ...about, kind: 'posthorn.delivery.buried', details: { subscription, eventId, reason } })
  if (orderingKey !== null) {
    alerts.raise({ ...about, kind: 'posthorn.lane.blocked', details: { eventId, orderingKey } })
  }
  // Guarded by itself: a listener that throws must not keep the next burial of a batch from being told.
  const tell = () => void events.emit('buried', { subscription, eventId, reason: burial.reason })
  guard(tell, log)()
}

/** The same for webhooks. */
export function observePush({ metrics, alerts, log }: Hooks): PushObserver {
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
    blocked: (found) => log.warn(found, 'An address was refused'),
    changed: ({ name, before, status, error }) => {
      log.warn({ subscription: name, before, status, error }, 'The state of an endpoint changed')
      if (status !== 'suspended' && status !== 'paused') return
      alerts.raise({
        kind: `posthorn.subscription.${status}`,
        subscription: name,
        details: { reason: error },
      })
    },
    trouble: (error, doing) => log.error({ err: error, doing }, 'Background task failed'),
  }
}

/** The same for memory queues. */
export function observeMemory(hooks: Hooks): MemoryObserver {
  const { metrics, log } = hooks
  return {
    persisted: (ms) => metrics.memoryPersistSeconds.observe(ms / 1000),
    lost: (name, unpersisted) =>
      log.error({ subscription: name, unpersisted }, 'Another process has taken a memory queue'),
    dropped: (name, unpersisted) =>
      log.error(
        { subscription: name, unpersisted },
        'A memory queue was stopped without the database: what it had not persisted is lost',
      ),
    recovered: (name, events) =>
      log.info({ subscription: name, events }, 'What a memory queue had left was recovered'),
    buried: guard((burial: Burial) => tellBurial(hooks, burial), log),
  }
}

/** Turns what the runner tells into log lines, metrics, hub events and alerts. */
export function observeRunner(hooks: Hooks): RunnerObserver {
  const { events, metrics, log, subscription } = hooks
  const nameOf = (delivery: LeasedDelivery) => subscription(delivery.run.subscription)?.name ?? 'unknown'
  const attempts = attemptCounters(metrics)
  return guarded(observer(), log)

  function observer(): RunnerObserver {
    return {
      settled: ({ delivery, settlement, executionMs }) => {
        const name = nameOf(delivery)
        attempts(name, settlement.kind).count(executionMs)
        if (settlement.kind === 'retry') log.warn(describe(delivery, name, settlement), 'An attempt failed')
        if (settlement.kind === 'bury') buried(delivery, name, settlement)
        if (events.listenerCount('settled') === 0) return
        events.emit('settled', {
          subscription: name,
          eventId: delivery.event.id,
          settlement: settlement.kind,
          executionMs,
        })
      },
      lost: (delivery, why) => {
        const name = nameOf(delivery)
        metrics.leasesLost.inc({ subscription: metrics.label(name) })
        log.warn({ subscription: name, eventId: delivery.event.id, why }, 'A lease was lost')
        events.emit('lost', { subscription: name, eventId: delivery.event.id, why })
      },
      trouble: (error, doing) => log.error({ err: error, doing }, 'Background task failed'),
    }
  }

  function buried(delivery: LeasedDelivery, name: string, { reason }: { reason: string }): void {
    const { id: eventId, type, orderingKey } = delivery.event
    const blocks = subscription(delivery.run.subscription)?.onExhausted === 'block'
    tellBurial(hooks, { subscription: name, eventId, type, reason, stopsLane: blocks ? orderingKey : null })
  }
}

/** The same for what remote workers report. */
export function observePull(hooks: Hooks): (settled: PullSettled) => void {
  const { events, metrics, log } = hooks
  const attempts = attemptCounters(metrics)
  return guard(({ subscription, eventId, type, orderingKey, stopsLane, settlement, executionMs }) => {
    attempts(subscription, settlement.kind).count(executionMs)
    if (settlement.kind === 'retry') {
      const { failures, afterMs, reason } = settlement
      log.warn(
        { subscription, eventId, type, failures, afterMs, reason: firstLine(reason) },
        'An attempt failed',
      )
    }
    if (settlement.kind === 'bury') {
      const burial = { subscription, eventId, type, reason: settlement.reason }
      tellBurial(hooks, { ...burial, stopsLane: stopsLane ? orderingKey : null })
    }
    if (events.listenerCount('settled') === 0) return
    events.emit('settled', {
      subscription,
      eventId,
      settlement: settlement.kind,
      executionMs: executionMs ?? 0,
    })
  }, log)
}

/** Each is looked up once: by name and kind, without making a text of them each time. */
function attemptCounters(metrics: Metrics): (name: string, settlement: string) => AttemptCount {
  const found = new Map<string, Map<string, AttemptCount>>()
  return (name, settlement) => {
    let ofName = found.get(name)
    if (ofName === undefined) {
      ofName = new Map()
      found.set(name, ofName)
    }
    let count = ofName.get(settlement)
    if (count === undefined) {
      count = metrics.attempted.of(metrics.label(name), settlement)
      ofName.set(settlement, count)
    }
    return count
  }
}

/** The same for upkeep, which also knows deliveries of subscriptions that this process does not serve. */
export function observeUpkeep(hooks: Hooks): UpkeepObserver {
  const { metrics, alerts, log, signals } = hooks
  const wake = () => signals.emit('wake')
  const observer: UpkeepObserver = {
    reclaimed: (runs, charged) => {
      metrics.leasesExpired.inc(runs)
      log.warn({ runs, charged: charged.length }, 'Leases of vanished workers were taken back')
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
        log.info({ queue: name, before, level, depth, isRefusing }, 'A queue has another level')
        if (level !== 'full' || before === 'full') continue
        alerts.raise({ kind: 'posthorn.queue.full', subscription: name, details: { depth, isRefusing } })
      }
    },
    drained: (queues) => {
      for (const queue of queues) {
        log.info({ queue }, 'A queue is drained')
        hooks.events.emit('drained', { queue })
      }
    },
    asleep: (sleepers) => {
      for (const { kind, name, key } of sleepers) {
        metrics.wakeUpsLost.inc({ kind })
        log.error(
          { subscription: name, kind, key },
          'A wake-up was lost: deliveries waited and nothing would have sent them. Upkeep has mended it; please report it.',
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
      log.warn({ timeline, idJump }, 'Another database server took over: event ids go on after a jump')
      const about = { kind: 'posthorn.database.promoted', subscription: '' } as const
      alerts.raise({
        ...about,
        details: { subscription: null, timeline, idJump },
        key: `timeline ${timeline}`,
      })
    },
    abandoned: (names) => {
      for (const name of names) {
        alerts.raise({ kind: 'posthorn.subscription.abandoned', subscription: name, details: {} })
      }
    },
    trouble: (error, doing) => log.error({ err: error, doing }, 'Background task failed'),
  }
  return guarded(observer, log)
}

function describe(
  delivery: LeasedDelivery,
  subscription: string,
  settlement: Extract<SettleDelivery['settlement'], { kind: 'retry' }>,
): object {
  const { attempt, event } = delivery
  const { failures, afterMs, reason } = settlement
  return {
    subscription,
    eventId: event.id,
    type: event.type,
    attempt,
    failures,
    afterMs,
    reason: firstLine(reason),
  }
}

function firstLine(reason: string): string {
  return reason.split('\n', 1)[0] ?? ''
}
