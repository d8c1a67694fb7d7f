import type { Subscriber } from './answers.ts'
import { read, readAll, type Transport } from './transport.ts'
import { fromWire, toWire } from './wire.ts'

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

  async create(input: SubscriberInput): Promise<Subscriber> {
    return this.#call('POST', '', toWire(input))
  }

  async list(): Promise<Subscriber[]> {
    return readAll<Subscriber>(this.#transport, '/subscribers', 'subscribers')
  }

  async get(id: string): Promise<Subscriber> {
    return this.#call('GET', `/${encodeURIComponent(id)}`)
  }

  async update(id: string, changes: SubscriberInput): Promise<Subscriber> {
    return this.#call('PATCH', `/${encodeURIComponent(id)}`, toWire(changes))
  }

  /** What waits for it is cancelled, and stays visible. */
  async delete(id: string): Promise<void> {
    const path = `/subscribers/${encodeURIComponent(id)}`
    await this.#transport.send({ method: 'DELETE', path, repeatable: false })
  }

  /** What is owed to it is held, never dropped. */
  async pause(id: string): Promise<Subscriber> {
    return this.#call('POST', `/${encodeURIComponent(id)}/pause`)
  }

  async resume(id: string): Promise<Subscriber> {
    return this.#call('POST', `/${encodeURIComponent(id)}/resume`)
  }

  async #call(method: 'GET' | 'POST' | 'PATCH', path: string, body?: string): Promise<Subscriber> {
    const answer = await this.#transport.send({
      method,
      path: `/subscribers${path}`,
      ...(body === undefined ? {} : { body }),
      repeatable: method === 'GET',
    })
    return read(answer, (text) => fromWire<Subscriber>(text))
  }
}
