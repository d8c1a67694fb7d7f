import { createSignal } from '../support/signal.ts'
import type { FakeAnswer, FakeRequest, FakeServer, Respond } from './fake-server.ts'

export interface FakeEvent {
  readonly id: number
  readonly payload: string
  readonly orderingKey?: string
  readonly type?: string
  readonly suspect?: boolean
}

interface Outcome {
  readonly event_id: number
  readonly lease_token: string
  readonly outcome: string
  readonly [field: string]: unknown
}

/** What the server does about one pull queue, in memory. A test may break in by `before`. */
export class FakeHub {
  readonly settled: Outcome[] = []
  readonly beats: { readonly id: number; readonly begun: number[] }[] = []
  /** Event → token of its lease. */
  readonly leases = new Map<number, string>()
  /** Cancelled by an operator: told by heartbeat. */
  readonly cancelled = new Set<number>()
  /** Long polls that wait. */
  parked = 0
  hungUp = 0
  /** An answer from here goes before the hub's own. */
  before: (request: FakeRequest) => ReturnType<Respond> | Promise<undefined> | undefined = () => undefined
  readonly #waiting: FakeEvent[] = []
  readonly #lanes = new Map<string, number>()
  #tokens = 0
  #published = createSignal()

  readonly respond: Respond = async (request) => (await this.before(request)) ?? this.#respond(request)

  publish(...events: readonly FakeEvent[]): void {
    this.#waiting.push(...events)
    this.wake()
  }

  wake(): void {
    this.#published.give()
    this.#published = createSignal()
  }

  /** The lease of an event is no longer its worker's. */
  lose(id: number): void {
    this.leases.set(id, 'somebody else’s')
  }

  get waiting(): number {
    return this.#waiting.length
  }

  async #respond(request: FakeRequest): Promise<FakeAnswer> {
    const [, , id, verb] = request.path.split('/')
    if (id === 'subscribe') return this.#subscribe(request)
    if (id === 'settle')
      return { body: { results: outcomesOf(request).map((outcome) => this.#settle(outcome)) } }
    if (verb === 'heartbeat') return this.#beat(Number(id), request)
    return { status: 404, body: { code: 'no_route' } }
  }

  async #subscribe({ query, gone }: FakeRequest): Promise<FakeAnswer> {
    const timeout = createSignal()
    const timer = setTimeout(() => timeout.give(), Number(query.get('wait')) * 1000)
    let over: 'hung up' | 'timed out' | undefined
    void gone.then(() => {
      over = 'hung up'
      timeout.give()
    })
    void timeout.given.then(() => {
      over ??= 'timed out'
    })
    for (;;) {
      const taken = over === 'hung up' ? [] : this.#take(Number(query.get('limit')))
      if (taken.length > 0 || over !== undefined) {
        clearTimeout(timer)
        if (over === 'hung up') this.hungUp++
        return taken.length === 0 ? { status: 204 } : { body: `[${taken.join(',')}]` }
      }
      this.parked++
      await Promise.race([this.#published.given, timeout.given])
      this.parked--
    }
  }

  /** Of a lane one at a time. */
  #take(limit: number): string[] {
    const token = `token-${++this.#tokens}`
    const taken: string[] = []
    for (const event of [...this.#waiting]) {
      const { id, orderingKey } = event
      if (taken.length === limit) break
      if (orderingKey !== undefined && this.#lanes.has(orderingKey)) continue
      if (orderingKey !== undefined) this.#lanes.set(orderingKey, id)
      const own = orderingKey === undefined ? token : `${token}-${id}`
      this.leases.set(id, own)
      taken.push(leasedText(event, own))
      this.#waiting.splice(this.#waiting.indexOf(event), 1)
    }
    return taken
  }

  #settle(outcome: Outcome): object {
    const { event_id, lease_token } = outcome
    if (this.leases.get(event_id) !== lease_token) return { event_id, status: 409, code: 'lease_lost' }
    this.settled.push(outcome)
    this.leases.delete(event_id)
    for (const [key, id] of this.#lanes) if (id === event_id) this.#lanes.delete(key)
    this.wake()
    return { event_id, status: 200, action: 'COMPLETED' }
  }

  #beat(id: number, request: FakeRequest): FakeAnswer {
    const { lease_token, begun } = JSON.parse(request.body) as { lease_token: string; begun: number[] }
    this.beats.push({ id, begun })
    if (this.leases.get(id) !== lease_token) return { status: 409, body: { code: 'lease_lost' } }
    const told = [...this.leases].filter(
      ([event, token]) => token === lease_token && this.cancelled.has(event),
    )
    return { body: { event_id: id, lease_token, cancelled_event_ids: told.map(([event]) => event) } }
  }
}

export function outcomesOf({ body }: FakeRequest): Outcome[] {
  return (JSON.parse(body) as { outcomes: Outcome[] }).outcomes
}

export function calls({ requests }: FakeServer, end: string): FakeRequest[] {
  return requests.filter(({ path }) => path.endsWith(end))
}

export function eventText({ id, payload, orderingKey, type }: FakeEvent, more = ''): string {
  const names = {
    id,
    type: type ?? null,
    title: 'a title',
    description: null,
    tags: 'a,b',
    status: 'PROCESSING',
  }
  const rest = {
    ...{ ordering_key: orderingKey ?? null, retry_count: 0, max_retries: 3, next_retry_at: null },
    ...{ created_at: '2026-01-02T03:04:05.678Z', updated_at: '2026-01-02T03:04:06.000Z' },
  }
  return `${JSON.stringify(names).slice(0, -1)},"payload":${payload},${JSON.stringify(rest).slice(1, -1)}${more}}`
}

export function leasedText(event: FakeEvent, token: string): string {
  const lease = `,"lease_token":"${token}","lease_expires_at":"2026-01-02T03:05:05.678Z","attempt":1,"subscription":"work"`
  return eventText(event, `${lease}${event.suspect ? ',"suspect":true' : ''}`)
}
