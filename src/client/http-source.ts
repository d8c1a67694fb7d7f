import type {
  Beat,
  HeldLease,
  LeaseAnswer,
  SettleAnswer,
  SettleDelivery,
  Source,
  Want,
} from '../consume/source.ts'
import type { LeasedDelivery, LeasedRun } from '../domain/delivery.ts'
import { PosthornError } from '../errors.ts'
import { PosthornHttpError } from './http-error.ts'
import { Leasing, type LeasingOptions, limitMax } from './leasing.ts'
import type { RemoteDelivery, RemoteRun } from './remote-run.ts'
import { portionsOf } from './settle-calls.ts'
import { toWire } from './translate.ts'
import { read } from './transport.ts'

export interface HttpSourceOptions extends LeasingOptions {
  /** The server has buried the delivery instead of trying again. */
  readonly exhausted: (delivery: LeasedDelivery) => void
  /** An operator has cancelled these events: those that have not begun must not begin. */
  readonly cancelled: (eventIds: readonly number[]) => void
}

const settlesMax = 2
const beatsMax = 8
/** A lease counts as lost after the server has refused this many of its deliveries. */
const refusalsMax = 10
/** How long each try to hand deliveries back may take. */
const releaseMs = 2_500
/** How long the server may take to tell whether a queue is paused, before it is asked again. */
const askMs = 2_000

interface SettleCall {
  readonly repeatable: boolean
  readonly timeoutMs?: number
}

/** The source of a remote worker's runner: leases by long polls, and settles many deliveries in one call. */
export class HttpSource implements Source {
  readonly #options: HttpSourceOptions
  readonly #leasing: Leasing

  constructor(options: HttpSourceOptions) {
    this.#options = options
    this.#leasing = new Leasing(options)
  }

  /** Ends a long poll under way, and leases nothing more. */
  stop(): Promise<void> {
    return this.#leasing.stop()
  }

  lease(wants: readonly Want[]): Promise<LeaseAnswer> {
    return this.#leasing.lease(wants[0] as Want)
  }

  /** The worker holds no suspect any more: the next one may be leased. */
  suspectsCleared(): void {
    this.#leasing.suspectsCleared()
  }

  /** Always true: a long poll costs no more than a question whether one would find anything. */
  async peek(): Promise<boolean> {
    return true
  }

  /** Sends the settlements once. The runner sends unanswered ones again, and asks about its leases meanwhile. */
  settle(settlements: readonly SettleDelivery[]): Promise<SettleAnswer[]> {
    return this.#settle(settlements, { repeatable: false })
  }

  async #settle(settlements: readonly SettleDelivery[], call: SettleCall): Promise<SettleAnswer[]> {
    const answers: SettleAnswer[] = new Array(settlements.length)
    const portions = portionsOf(settlements, limitMax)
    await eachOf(portions, settlesMax, async ({ body, positions }) => {
      const statuses = await this.#settlePortion(body, call)
      if (statuses.length !== positions.length) throw new Error('Not every outcome was answered')
      for (const [i, position] of positions.entries()) {
        const settlement = settlements[position] as SettleDelivery
        answers[position] = this.#answered(settlement, statuses[i] as number)
      }
    })
    return answers
  }

  /** A refusal concerns one lease only. If the server is too busy or does not answer, the remaining leases are not asked about. */
  async heartbeat(beats: readonly Beat[]): Promise<HeldLease[]> {
    const held: HeldLease[] = []
    let unknown: HeldLease['unknown']
    await eachOf(beats, beatsMax, async (beat) => {
      const { run } = beat
      try {
        if (unknown !== undefined) throw unknown.error
        const answer = await this.#beat(beat)
        if (answer !== undefined) held.push(answer)
      } catch (error) {
        const why = { error, waitMs: (error instanceof PosthornHttpError && error.retryAfterMs) || 0 }
        if (error instanceof PosthornHttpError && (error.status === 429 || error.status === 0)) unknown = why
        held.push({ run, renewed: false, cancelled: [], unknown: why })
      }
    })
    return held
  }

  /** Whether the delivery's queue is paused; undefined: the worker has lost the delivery. The answer also names cancelled events. */
  async isHeld(delivery: LeasedDelivery): Promise<boolean | undefined> {
    const timeoutMs = Math.min(this.#beatMs, askMs)
    const beaten = await this.#beatOnce(delivery as RemoteDelivery, { timeoutMs })
    const cancelled = beaten?.cancelled_event_ids ?? []
    if (cancelled.length > 0) this.#options.cancelled(cancelled)
    return beaten && (beaten.held ?? false)
  }

  release(runs: readonly LeasedRun[]): Promise<void> {
    return this.releaseSome(runs.flatMap((run) => (run as RemoteRun).deliveries))
  }

  async releaseSome(deliveries: readonly LeasedDelivery[]): Promise<void> {
    const left = deliveries.filter((delivery) => (delivery as RemoteDelivery).state === 'held')
    if (left.length === 0) return
    const settlement = { kind: 'release' } as const
    const settlements = left.map((delivery) => ({ delivery, settlement, startedAfterMs: 0, executionMs: 0 }))
    await this.#settle(settlements, { repeatable: true, timeoutMs: releaseMs })
  }

  async isolate(): Promise<never> {
    throw new PosthornError('REMOTE_ATTEMPT')
  }

  async completeIn(): Promise<never> {
    throw new PosthornError('REMOTE_ATTEMPT')
  }

  async isCompleted(): Promise<boolean> {
    return false
  }

  async #settlePortion(body: string, call: SettleCall): Promise<number[]> {
    const { transport, workerId } = this.#options
    const answer = await transport.send({
      method: 'POST',
      path: '/events/settle',
      body: `{"worker_id":${JSON.stringify(workerId)},"outcomes":[${body}]}`,
      ...call,
    })
    return read(answer, (text) =>
      (JSON.parse(text) as { results: { status: number }[] }).results.map(({ status }) => status),
    )
  }

  #answered({ delivery }: SettleDelivery, status: number): SettleAnswer {
    // Safe to repeat: outcomes that were settled get the same answer again.
    if (status === 429 || status >= 500) throw new Error(`An outcome was answered with ${status}`)
    ;(delivery as RemoteDelivery).state = 'over'
    if (status === 400) this.#options.exhausted(delivery)
    return status === 200 || status === 400 ? 'settled' : 'lost'
  }

  /**
   * Asks about a delivery that is not being settled, if there is one, since a settled one is refused. An operator may have
   * taken single deliveries out of the lease, so several are asked about before the lease counts as lost.
   */
  async #beat({ run, begun }: Beat): Promise<HeldLease | undefined> {
    const { deliveries } = run as RemoteRun
    const held = { run, renewed: true, cancelled: [] }
    for (let lost = 0; lost < refusalsMax; ) {
      const pick = lost === 0 ? last : anyOf
      const asked = pick(deliveries, 'held') ?? pick(deliveries, 'settling')
      if (asked === undefined) return lost === 0 ? held : undefined
      const beaten = await this.#beatOnce(asked, { begun, timeoutMs: this.#beatMs })
      if (beaten !== undefined) return { ...held, cancelled: beaten.cancelled_event_ids ?? [] }
      if (asked.state === 'settling' && last(deliveries, 'held') === undefined)
        return { ...held, renewed: false }
      if (asked.state !== 'held') continue
      asked.state = 'over'
      lost++
    }
    return undefined
  }

  get #beatMs(): number {
    return (this.#options.leaseSeconds * 1000) / 3
  }

  /** Undefined: the lease is refused. */
  async #beatOnce(
    { run, event }: RemoteDelivery,
    { begun, timeoutMs }: { readonly begun?: readonly number[]; readonly timeoutMs: number },
  ): Promise<Beaten | undefined> {
    const { transport, workerId, leaseSeconds } = this.#options
    const { leaseToken } = run
    try {
      const answer = await transport.send({
        method: 'POST',
        path: `/events/${event.id}/heartbeat`,
        body: toWire({ leaseToken, workerId, lease: leaseSeconds, begun }),
        repeatable: false,
        timeoutMs,
      })
      return read(answer, (text) => JSON.parse(text) as Beaten)
    } catch (error) {
      const isRefused = error instanceof PosthornHttpError && (error.status === 409 || error.status === 404)
      if (isRefused) return undefined
      throw error
    }
  }
}

interface Beaten {
  /** The events that an operator has cancelled, among all that this worker holds through the same subscription. */
  readonly cancelled_event_ids?: number[]
  /** Nothing more is to begin. */
  readonly held?: boolean
}

function last(
  deliveries: readonly RemoteDelivery[],
  state: RemoteDelivery['state'],
): RemoteDelivery | undefined {
  return deliveries.findLast((delivery) => delivery.state === state)
}

function anyOf(
  deliveries: readonly RemoteDelivery[],
  state: RemoteDelivery['state'],
): RemoteDelivery | undefined {
  const candidates = deliveries.filter((delivery) => delivery.state === state)
  return candidates[Math.floor(Math.random() * candidates.length)]
}

/** Runs `work` for each item, a few at a time. After a failure it begins no more, and throws when those under way have ended. */
async function eachOf<T>(
  all: readonly T[],
  atOnceMax: number,
  act: (one: T) => Promise<void>,
): Promise<void> {
  let next = 0
  let failed = false
  const work = async () => {
    while (next < all.length && !failed) {
      await act(all[next++] as T).catch((error: unknown) => {
        failed = true
        throw error
      })
    }
  }
  const done = await Promise.allSettled(Array.from({ length: Math.min(atOnceMax, all.length) }, work))
  for (const result of done) if (result.status === 'rejected') throw result.reason
}
