import type { Catalogue, EventToPublish } from '../domain/catalogue.ts'
import type { EventInput } from '../domain/event.ts'
import { atPlace, checkEventForm, checkEventList } from '../domain/event-inputs.ts'
import { checkOptions, type NamesOf } from '../domain/known-names.ts'
import type {
  CancelAnswer,
  CancelManyAnswer,
  EventDetails,
  EventPage,
  FailAnswer,
  HeartbeatAnswer,
  LeasedEvent,
  ListedEvent,
  LogEntry,
  PublishedEvent,
  RemoteEvent,
  RemoteWorker,
  SettleResult,
} from './answers.ts'
import {
  type CallOptions,
  type CancelFilter,
  callNames,
  checkCall,
  checkEventId,
  checkLease,
  checkOutcomes,
  type EventQuery,
  type FailureReport,
  type Lease,
  type Outcome,
  type PublishOptions,
  type Report,
  type SubscribeOptions,
} from './call-options.ts'
import { PosthornHttpError } from './http-error.ts'
import { Subscribers } from './subscriber-calls.ts'
import {
  answerWith,
  eventToWire,
  extend,
  listOf,
  readEvent,
  readEventDetails,
  readEventPage,
  readLeasedEvents,
  readPublished,
  toQuery,
  toWire,
} from './translate.ts'
import { type Call, type ClientOptions, read, readAll, Transport } from './transport.ts'
import { PullWorker, type WorkerHandler, type WorkerOptions } from './worker.ts'

/**
 * The server's API, using only fetch. If the server cannot be reached or is too busy, the client repeats calls that are safe
 * to repeat. It does not repeat subscribing, cancelling, resetting, and changes of subscribers.
 */
export class PosthornClient<C extends Catalogue = Catalogue> {
  readonly subscribers: Subscribers
  readonly #transport: Transport

  constructor(options: ClientOptions) {
    this.#transport = new Transport(options)
    this.subscribers = new Subscribers(this.#transport)
  }

  async publish(event: EventToPublish<C>, options: PublishOptions = {}): Promise<PublishedEvent> {
    checkOptions(options, publishNames, 'publish')
    checkEventForm(event)
    const { idempotencyKey: own, ...input } = event as EventInput
    const key = options.idempotencyKey ?? own ?? crypto.randomUUID()
    const inHeader = headerText.test(key)
    const answer = await this.#transport.send({
      method: 'POST',
      path: '/events',
      body: eventToWire((inHeader ? input : { ...input, idempotencyKey: key }) as EventInput),
      headers: inHeader ? { 'idempotency-key': key } : {},
      repeatable: true,
      signal: options.signal,
    })
    const replayed = answer.headers.get('idempotency-replayed') === 'true'
    const backpressure = answer.headers.get('posthorn-backpressure')?.split(', ') ?? []
    return extend(read(answer, readEvent), { replayed, backpressure })
  }

  /** Publishes up to 1,000 events: all or none. */
  async publishMany(events: readonly EventToPublish<C>[], options: CallOptions = {}): Promise<RemoteEvent[]> {
    const { signal } = checkCall(options, 'publishMany')
    checkEventList(events)
    const texts = Array.from(events as readonly EventInput[], (event, place) =>
      atPlace(`events[${place}]`, () => {
        checkEventForm(event)
        return eventToWire({ ...event, idempotencyKey: event.idempotencyKey ?? crypto.randomUUID() })
      }),
    )
    const body = `{"events":[${texts.join(',')}]}`
    return this.#post('/events/batch', { body, repeatable: true, signal }, readPublished)
  }

  /** Leases up to `limit` events. The client does not repeat this call: a lost answer may have leased some. */
  async subscribe(options: SubscribeOptions): Promise<LeasedEvent[]> {
    checkOptions(options, callNames.subscribe, 'subscribe')
    const { signal, waitSeconds, leaseSeconds, ...rest } = options
    const answer = await this.#transport.send({
      method: 'POST',
      path: '/events/subscribe',
      query: toQuery({ ...rest, wait: waitSeconds, lease: leaseSeconds }),
      repeatable: false,
      signal,
      waitMs: (waitSeconds ?? 0) * 1000,
    })
    return answer.status === 204 ? [] : read(answer, readLeasedEvents)
  }

  async start(lease: Lease, options: CallOptions = {}): Promise<LogEntry> {
    checkCall(options, 'start')
    return this.#report(lease, 'start', options, answerWith<LogEntry>('eventId'))
  }

  /** Renews the lease, and says whether an operator wants the event stopped. 409: the lease is lost, stop. */
  async heartbeat(
    lease: Lease,
    options: CallOptions & { readonly leaseSeconds?: number } = {},
  ): Promise<HeartbeatAnswer> {
    checkOptions(options, { leaseSeconds: true, signal: true }, 'heartbeat')
    const { leaseSeconds, ...rest } = options
    const toAnswer = (text: string) => {
      const answer = answerWith<HeartbeatAnswer>('leaseToken')(text)
      return { ...answer, cancelledEventIds: answer.cancelledEventIds ?? [], held: answer.held ?? false }
    }
    return this.#report(lease, 'heartbeat', { ...rest, lease: leaseSeconds }, toAnswer)
  }

  async complete(lease: Lease, report: Report = {}): Promise<LogEntry> {
    checkOptions(report, callNames.complete, 'complete')
    return this.#report(lease, 'complete', report, answerWith<LogEntry>('eventId'))
  }

  /** Reports a failure. The answer says whether the event is tried again. */
  async fail(lease: Lease, report: FailureReport = {}): Promise<FailAnswer> {
    checkOptions(report, callNames.fail, 'fail')
    try {
      return await this.#report(lease, 'fail', report, answerWith<FailAnswer>('retryScheduled'))
    } catch (error) {
      if (!(error instanceof PosthornHttpError) || error.code !== 'MAX_RETRIES_EXCEEDED') throw error
      const { retry_count: retryCount, max_retries: maxRetries } = error.problem
      return { retryScheduled: false, retryCount: Number(retryCount), maxRetries: Number(maxRetries) }
    }
  }

  /** Hands the event back. This does not count as a failure. */
  async release(lease: Lease, options: CallOptions = {}): Promise<LogEntry> {
    checkCall(options, 'release')
    return this.#report(lease, 'release', options, answerWith<LogEntry>('eventId'))
  }

  /** Settles up to 1,000 outcomes. Each gets its own answer, in their order. */
  async settle(outcomes: readonly Outcome[], options: CallOptions = {}): Promise<SettleResult[]> {
    const { signal } = checkCall(options, 'settle')
    checkOutcomes(outcomes)
    const texts = outcomes.map(({ lease: { id, leaseToken, workerId }, ...outcome }) =>
      toWire({ eventId: id, leaseToken, workerId, ...outcome }),
    )
    const repeatable = outcomes.every(({ lease }) => lease.leaseToken !== undefined)
    const body = `{"outcomes":[${texts.join(',')}]}`
    return this.#post('/events/settle', { body, repeatable, signal }, listOf<SettleResult>('results'))
  }

  /** An event with its deliveries, and with its log if asked for. */
  async event(id: number, options: CallOptions & { readonly logs?: boolean } = {}): Promise<EventDetails> {
    checkOptions(options, { logs: true, signal: true }, 'event')
    const { logs = false, signal } = options
    const query = toQuery(logs ? { includeLogs: true } : {})
    return this.#get(`/events/${checkEventId(id)}`, query, signal, readEventDetails)
  }

  /** One page of events, without payloads. */
  async listEvents(options: EventQuery = {}): Promise<EventPage> {
    checkOptions(options, callNames.listEvents, 'listEvents')
    const { signal, payload = {}, ...filter } = options
    const query = toQuery(filter)
    for (const [path, value] of Object.entries(payload)) query.set(`payload.${path}`, String(value))
    return this.#get('/events', query, signal, readEventPage)
  }

  /** All events that match, without payloads. It reads page by page. */
  async *events(filter: EventQuery = {}): AsyncGenerator<ListedEvent, void, undefined> {
    let page = await this.listEvents({ limit: pageLimit, ...filter })
    for (;;) {
      yield* page.events
      if (page.nextCursor === null) return
      const { offset: _, ...rest } = filter
      page = await this.listEvents({ limit: pageLimit, ...rest, cursor: page.nextCursor })
    }
  }

  /** Takes an event from the worker that holds it. The event waits again; its failures stay counted. */
  async reset(
    id: number,
    options: CallOptions & { readonly reason?: string } = {},
  ): Promise<RemoteEvent & { readonly reset: number }> {
    checkOptions(options, { reason: true, signal: true }, 'reset')
    const { reason, signal } = options
    const call = { query: toQuery({ reason }), repeatable: false, signal }
    return this.#post(`/events/${checkEventId(id)}/reset`, call, (text) => {
      const { reset } = JSON.parse(text) as { reset: number }
      return extend(readEvent(text), { reset })
    })
  }

  async cancel(id: number, options: CallOptions & { readonly reason?: string } = {}): Promise<CancelAnswer> {
    checkOptions(options, { reason: true, signal: true }, 'cancel')
    const { signal, ...rest } = options
    const call = { body: toWire(rest), repeatable: false, signal }
    return this.#post(`/events/${checkEventId(id)}/cancel`, call, answerWith<CancelAnswer>('cancelled'))
  }

  async cancelMany(query: CancelFilter, options: CallOptions = {}): Promise<CancelManyAnswer> {
    checkOptions(query, callNames.cancelMany, 'cancelMany')
    const { signal: own, ...filter } = query
    const { signal = own } = checkCall(options, 'cancelMany')
    const call = { body: toWire(filter), repeatable: false, signal }
    return this.#post('/events/cancel', call, answerWith<CancelManyAnswer>('cancelled'))
  }

  /** All workers that the server has heard of. */
  async workers(options: CallOptions = {}): Promise<RemoteWorker[]> {
    const { signal } = checkCall(options, 'workers')
    return readAll<RemoteWorker>(this.#transport, '/workers', 'workers', signal)
  }

  /** A worker that leases, runs the handler, settles and keeps its leases alive. Nothing runs before `start()`. */
  worker(options: WorkerOptions, handler: WorkerHandler<C>): PullWorker {
    return new PullWorker(this.#transport, options, handler as WorkerHandler)
  }

  /** A call about a leased event. It is safe to repeat if a token says which lease is meant. */
  async #report<T>(lease: Lease, verb: string, report: object, reader: (text: string) => T): Promise<T> {
    const { id, leaseToken, workerId } = checkLease(lease)
    const { signal, ...rest } = report as CallOptions
    const body = toWire({ leaseToken, workerId, ...rest })
    const call = { body, repeatable: leaseToken !== undefined, signal }
    return this.#post(`/events/${id}/${verb}`, call, reader)
  }

  async #get<T>(
    path: string,
    query: URLSearchParams,
    signal: AbortSignal | undefined,
    reader: (text: string) => T,
  ): Promise<T> {
    return read(await this.#transport.send({ method: 'GET', path, query, repeatable: true, signal }), reader)
  }

  async #post<T>(path: string, call: Omit<Call, 'method' | 'path'>, reader: (text: string) => T): Promise<T> {
    return read(await this.#transport.send({ method: 'POST', path, ...call }), reader)
  }
}

const publishNames: NamesOf<PublishOptions> = { idempotencyKey: true, signal: true }
const pageLimit = 100
/** What an HTTP header can carry unchanged. */
const headerText = /^[!-~]([ -~]*[!-~])?$/
