import type { Subscriber } from './answers.ts'
import { type CallOptions, checkCall, encodeId } from './call-options.ts'
import { answerWith, toWire } from './translate.ts'
import { read, readAll, type Transport } from './transport.ts'

/** Most fields have a default. Fields that are not listed here are sent with their names in snake_case. */
export interface SubscriberInput {
  readonly name?: string
  readonly via?: 'pull' | 'webhook'
  readonly eventTypes?: readonly string[]
  readonly tags?: string | readonly string[] | null
  readonly isActive?: boolean
  readonly onExhausted?: 'skip' | 'block'
  readonly retryBackoffSeconds?: readonly number[] | null
  readonly retryDelaySeconds?: number
  readonly maxRetries?: number
  readonly leaseSeconds?: number
  readonly maxConcurrency?: number | null
  readonly ratePerSecond?: number | null
  readonly keyConcurrency?: number | null
  /** Sent with every webhook. A change keeps headers that it leaves out; null removes a header. */
  readonly headers?: Readonly<Record<string, string | null>>
  /** The headers whose values may be shown. */
  readonly publicHeaders?: readonly string[]
  readonly [field: string]: unknown
}

/** `client.subscribers`. The client repeats only calls that read. */
export class Subscribers {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  async create(input: SubscriberInput, options: CallOptions = {}): Promise<Subscriber> {
    return this.#call('POST', '', options, toWire(input))
  }

  async list(options: CallOptions = {}): Promise<Subscriber[]> {
    const { signal } = checkCall(options, 'list')
    return readAll<Subscriber>(this.#transport, '/subscribers', 'subscribers', signal)
  }

  async get(id: string, options: CallOptions = {}): Promise<Subscriber> {
    return this.#call('GET', `/${encodeId(id)}`, options)
  }

  async update(id: string, changes: SubscriberInput, options: CallOptions = {}): Promise<Subscriber> {
    return this.#call('PATCH', `/${encodeId(id)}`, options, toWire(changes))
  }

  /** Ends the subscription. Its waiting deliveries are cancelled, and stay visible. */
  async delete(id: string, options: CallOptions = {}): Promise<void> {
    const { signal } = checkCall(options, 'delete')
    const path = `/subscribers/${encodeId(id)}`
    await this.#transport.send({ method: 'DELETE', path, repeatable: false, signal })
  }

  /** Pauses the subscription. Events for it are kept until it is resumed. */
  async pause(id: string, options: CallOptions = {}): Promise<Subscriber> {
    return this.#call('POST', `/${encodeId(id)}/pause`, options)
  }

  async resume(id: string, options: CallOptions = {}): Promise<Subscriber> {
    return this.#call('POST', `/${encodeId(id)}/resume`, options)
  }

  async #call(
    method: 'GET' | 'POST' | 'PATCH',
    path: string,
    options: CallOptions,
    body?: string,
  ): Promise<Subscriber> {
    const { signal } = checkCall(options, 'subscribers')
    const answer = await this.#transport.send({
      method,
      path: `/subscribers${path}`,
      ...(body === undefined ? {} : { body }),
      repeatable: method === 'GET',
      signal,
    })
    return read(answer, answerWith<Subscriber>('id'))
  }
}
