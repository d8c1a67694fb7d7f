import type { LeaseAnswer, Want } from '../consume/source.ts'
import type { LeasedRun } from '../domain/delivery.ts'
import { PosthornHttpError } from './http-error.ts'
import { readLeases } from './leases.ts'
import { RemoteDelivery, RemoteRun } from './remote-run.ts'
import { toQuery } from './translate.ts'
import { pause, read, type Transport } from './transport.ts'

export interface LeasingOptions {
  readonly transport: Transport
  readonly workerId: string
  /** The name of the subscription; `work` is the work queue, which is asked by tags. */
  readonly subscription: string
  readonly tags: string | readonly string[] | undefined
  readonly leaseSeconds: number
  readonly waitSeconds: number
  /** Takes runs that were leased by a call which is no longer awaited. */
  readonly take: (runs: readonly LeasedRun[], askedAt: number) => Promise<void>
}

/** A call under way that leases. */
interface LeaseCall {
  readonly limit: number
  readonly suspects: boolean
  readonly waitSeconds: number
  readonly askedAt: number
  done: Promise<void>
}

interface Arrival {
  readonly call: LeaseCall
  readonly runs: RemoteRun[]
}

/** The server hands out and takes back at most this many events in one call. */
export const limitMax = 1_000
/** How many calls are under way while there is much to lease: one is answered while the next is prepared. */
const callsMax = 3
/** A further call is made only for at least this many events. */
const limitBesideMin = 250
const retryAfterMsMax = 30_000

/**
 * The calls that lease. An idle worker has one, a long poll. A busy one has several that do not wait, and takes
 * their answers one by one as they come, so that server and worker are never idle at the same time.
 */
export class Leasing {
  readonly #options: LeasingOptions
  readonly #waitSeconds: number
  readonly #stop = new AbortController()
  readonly #calls = new Set<LeaseCall>()
  #awaited: { resolve(arrival: Arrival): void; reject(error: unknown): void } | undefined
  #failure: unknown
  #runs = 0

  constructor(options: LeasingOptions) {
    this.#options = options
    // By the worker's clock a lease begins when it is asked for, so a long wait would use up most of it.
    this.#waitSeconds = Math.min(options.waitSeconds, Math.floor(options.leaseSeconds / 3))
  }

  async lease(want: Want): Promise<LeaseAnswer> {
    try {
      return await this.#lease(want)
    } catch (error) {
      if (this.#stop.signal.aborted) return { runs: [], again: false }
      await this.#bePatient(error)
      throw error
    }
  }

  /**
   * The suspect that was held is settled. If the only call under way is a long poll that asked for no suspects, another call
   * asks for one beside it. The first answer is taken.
   */
  suspectsCleared(): void {
    const calls = [...this.#calls]
    const isAsked = calls.length === 0 || calls.some((call) => call.suspects)
    if (!isAsked && !this.#stop.signal.aborted) this.#start({ limit: 1, suspects: true, waitSeconds: 0 })
  }

  /** Ends the calls that have no answer yet. An answer that is arriving is still read, and its leases are handed back. */
  async stop(): Promise<void> {
    this.#stop.abort()
    await Promise.all([...this.#calls].map((call) => call.done))
  }

  async #lease(want: Want): Promise<LeaseAnswer> {
    this.#ask(want)
    for (;;) {
      const { call, runs } = await this.#arrival()
      const { limit, waitSeconds, askedAt } = call
      if (runs.length > 0) return { runs, askedAt, again: countOf(runs) === limit }
      // The server answered before the wait was over, so it will not let us wait now. The runner slows down by itself.
      if (waitSeconds > 0) return { runs, again: performance.now() - askedAt > waitSeconds * 500 }
      if (this.#waitSeconds === 0) return { runs, again: false }
      if (this.#calls.size === 0) this.#wait(want)
    }
  }

  /** Starts calls until enough are under way. */
  #ask(want: Want): void {
    if (this.#calls.size === 0 && want.eventsMax <= limitMax) {
      this.#wait(want)
      return
    }
    let missing = want.eventsMax
    for (const call of this.#calls) missing -= call.limit
    while (this.#calls.size === 0 || (this.#calls.size < callsMax && missing >= limitBesideMin)) {
      const limit = Math.min(missing, limitMax)
      // One suspect at a time, so only one call may bring one.
      const suspects = want.suspects && ![...this.#calls].some((call) => call.suspects)
      this.#start({ limit, suspects, waitSeconds: 0 })
      missing -= limit
    }
  }

  #wait({ eventsMax, suspects }: Want): void {
    // If a suspect turns up meanwhile, the next call leases it.
    const waitSeconds = suspects ? this.#waitSeconds : Math.min(this.#waitSeconds, 1)
    this.#start({ limit: Math.min(eventsMax, limitMax), suspects, waitSeconds })
  }

  #start(ask: Pick<LeaseCall, 'limit' | 'suspects' | 'waitSeconds'>): void {
    const call: LeaseCall = { ...ask, askedAt: performance.now(), done: Promise.resolve() }
    this.#calls.add(call)
    call.done = this.#send(call).then(
      (runs) => this.#arrived({ call, runs }),
      (error: unknown) => this.#failed(call, error),
    )
  }

  async #arrived(arrival: Arrival): Promise<void> {
    this.#calls.delete(arrival.call)
    const awaited = this.#awaited
    this.#awaited = undefined
    if (awaited !== undefined) awaited.resolve(arrival)
    else if (arrival.runs.length > 0) await this.#options.take(arrival.runs, arrival.call.askedAt)
  }

  #failed(call: LeaseCall, error: unknown): void {
    this.#calls.delete(call)
    const awaited = this.#awaited
    this.#awaited = undefined
    if (awaited !== undefined) awaited.reject(error)
    else this.#failure = error
  }

  #arrival(): Promise<Arrival> {
    const failure = this.#failure
    this.#failure = undefined
    if (failure !== undefined) return Promise.reject(failure)
    return new Promise((resolve, reject) => {
      this.#awaited = { resolve, reject }
    })
  }

  async #send({ limit, suspects, waitSeconds: wait, askedAt }: LeaseCall): Promise<RemoteRun[]> {
    const { transport, workerId, subscription, tags, leaseSeconds: lease } = this.#options
    const answer = await transport.send({
      method: 'POST',
      path: '/events/subscribe',
      query: toQuery({ workerId, subscription, tags, limit, wait, lease, begin: 'reported', suspects }),
      repeatable: false,
      signal: this.#stop.signal,
      abortable: 'until it is answered',
      waitMs: wait * 1000,
    })
    const waitedMs = performance.now() - askedAt
    return read(answer, (text) => this.#readRuns(text, waitedMs))
  }

  /** Events with the same token are one run. Of a lane the server leases one delivery, which is a run of its own. */
  #readRuns(text: string, waitedMs: number): RemoteRun[] {
    const runs: RemoteRun[] = []
    const unkeyed = new Map<string, RemoteRun>()
    readLeases(text, (leased) => {
      const { leaseToken, event } = leased
      let run = event.orderingKey === null ? unkeyed.get(leaseToken) : undefined
      if (run === undefined) {
        run = new RemoteRun(++this.#runs, leased, waitedMs)
        runs.push(run)
        if (run.laneKey === null) unkeyed.set(leaseToken, run)
      }
      run.deliveries.push(new RemoteDelivery(run, leased))
    })
    return runs
  }

  /** How long to wait after a refusal that asks the client to wait. */
  async #bePatient(error: unknown): Promise<void> {
    const ms = error instanceof PosthornHttpError ? (error.retryAfterMs ?? 0) : 0
    if (ms > 0) await pause(Math.min(ms, retryAfterMsMax), this.#stop.signal).catch(() => undefined)
  }
}

function countOf(runs: readonly RemoteRun[]): number {
  return runs.reduce((sum, run) => sum + run.deliveries.length, 0)
}
