import type { LeasedRun } from '../domain/delivery.ts'
import type { EventInput, NewEvent } from '../domain/event.ts'
import type { Logger } from '../observe/log.ts'

/** What one publish came to, as far as other parts of this process need to know. */
export interface PublishedEvents {
  /** One for each event, in the same order. */
  readonly answers: readonly {
    readonly id: number
    readonly owed: readonly number[]
    readonly replayed: boolean
    readonly conflict: boolean
    readonly refused: object | null
  }[]
  readonly events: readonly NewEvent[]
  /** Subscriptions whose runner in this process was handed its deliveries by the publishing statement. */
  readonly handedTo: ReadonlySet<number>
}

/** Runs that were leased, and the monotonic time at which they were asked for. */
export interface LeasedRuns {
  readonly runs: readonly LeasedRun[]
  readonly askedAt: number
}

/** What happens in this process that another part of it must hear of. */
export interface SignalValues {
  /** Events were stored. */
  published: PublishedEvents
  /** There may be something to lease, for handlers and for workers that wait. */
  wake: undefined
  /** There may be something to lease for the handlers of this process. */
  wakeHandlers: undefined
  /** A subscription was made, changed or ended, here or elsewhere. */
  subscriptionsChanged: undefined
  /** Somewhere deliveries were cancelled that this process may hold. */
  deliveriesCancelled: undefined
  /** Notifications of other processes may have been missed, and the server may be another one. */
  noticesMissed: undefined
  /** A connection was lost and is back: the server may be another one. */
  reconnected: undefined
  /** A settlement was refused: a run may be leased to this process that it does not know of. */
  leaseDoubted: undefined
  /** An alert is to be published as an event, if anybody wants events of its type. */
  alertRaised: EventInput
  /** A run that waited for memory to finish its lane may begin. */
  runMayBegin: LeasedRun
  /** A run that waited for memory to finish its lane is no longer ours. */
  runDropped: LeasedRun
  /** The database gave these runs to a source that had already answered. */
  runsLeased: LeasedRuns
  /** What has not begun of this subscription, by number, goes back. */
  handBackUnbegun: number
  /** Another process has this subscription's queue in its memory now, by number. */
  queueTaken: number
}

type Name = keyof SignalValues
type Listener<N extends Name> = (value: SignalValues[N]) => unknown

/** The one emitter between the parts of a process. A listener that throws is logged, and the others still hear. */
export class Signals {
  readonly #log: Logger
  readonly #listeners = new Map<Name, Listener<Name>[]>()

  constructor(log: Logger) {
    this.#log = log
  }

  on<N extends Name>(name: N, listener: Listener<N>): void {
    const listeners = this.#listeners.get(name) ?? []
    listeners.push(listener as Listener<Name>)
    this.#listeners.set(name, listeners)
  }

  emit<N extends Name>(
    name: N,
    ...[value]: SignalValues[N] extends undefined ? [] : [SignalValues[N]]
  ): void {
    for (const listener of this.#listeners.get(name) ?? []) {
      try {
        listener(value as SignalValues[N])
      } catch (error) {
        this.#log.error({ err: error, signal: name }, 'A listener of a signal threw')
      }
    }
  }

  /** Resolves when every listener is done; rejects as the first of them does. */
  async emitAndWait<N extends Name>(name: N, value: SignalValues[N]): Promise<void> {
    await Promise.all((this.#listeners.get(name) ?? []).map((listener) => listener(value)))
  }
}
