import type { Subscriber } from './answers.ts'
import type { CallOptions } from './requests.ts'
import { read, readAll, type Transport } from './transport.ts'
import { answerWith, toWire } from './wire.ts'

/** Most have a default. More fields than these are sent as they are named, in snake_case. */
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
  readonly [field: string]: unknown
}

/** `client.subscribers`. Only reading is repeated by itself. */
export class Subscribers {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  async create(input: SubscriberInput, options: CallOptions = {}): Promise<Subscriber> {
    return this.#call('POST', '', options, toWire(input))
  }

  async list({ signal }: CallOptions = {}): Promise<Subscriber[]> {
    return readAll<Subscriber>(this.#transport, '/subscribers', 'subscribers', signal)
  }

  async get(id: string, options: CallOptions = {}): Promise<Subscriber> {
    return this.#call('GET', `/${encodeURIComponent(id)}`, options)
  }

  async update(id: string, changes: SubscriberInput, options: CallOptions = {}): Promise<Subscriber> {
    return this.#call('PATCH', `/${encodeURIComponent(id)}`, options, toWire(changes))
  }

  /** What waits for it is cancelled, and stays visible. */
  async delete(id: string, { signal }: CallOptions = {}): Promise<void> {
    const path = `/subscribers/${encodeURIComponent(id)}`
    await this.#transport.send({ method: 'DELETE', path, repeatable: false, signal })
  }

  /** What is owed to it is held, never dropped. */
  async pause(id: string, options: CallOptions = {}): Promise<Subscriber> {
    return this.#call('POST', `/${encodeURIComponent(id)}/pause`, options)
  }

  async resume(id: string, options: CallOptions = {}): Promise<Subscriber> {
    return this.#call('POST', `/${encodeURIComponent(id)}/resume`, options)
  }

  async #call(
    method: 'GET' | 'POST' | 'PATCH',
    path: string,
    { signal }: CallOptions,
    body?: string,
  ): Promise<Subscriber> {
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
