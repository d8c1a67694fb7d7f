import { expect } from 'vitest'
import { moveClock } from '../../src/engine/clock.ts'
import type { TestAnswer, TestServer } from '../support/http.ts'

/** What pull workers do, in as few words as the tests need. */

// biome-ignore lint/suspicious/noExplicitAny: tests look into whatever came
export type Json = any

export interface Lease {
  readonly id: number
  readonly worker: string
  readonly lease_token: string
  readonly lease_expires_at: string
  readonly attempt: number
  readonly retry_count: number
  readonly [field: string]: Json
}

/** The two ways to say which lease is meant. */
export const claims = ['worker_id', 'lease_token'] as const
export type Claim = (typeof claims)[number]

export function claimOf(by: Claim, lease: Lease): Record<string, string> {
  return by === 'worker_id' ? { worker_id: lease.worker } : { lease_token: lease.lease_token }
}

export class Pulling {
  readonly server: TestServer

  constructor(server: TestServer) {
    this.server = server
  }

  async publish(fields: object = {}): Promise<number> {
    const event = { title: 'x', tags: 'a', payload: null, ...fields }
    const { status, json, text } = await this.server.call('POST', '/events', event)
    expect([201, 202], text).toContain(status)
    return json.id
  }

  /** As many as one call may have: those of a call are leased together. */
  async publishMany(count: number, fields: object = {}): Promise<number[]> {
    const events = Array.from({ length: count }, () => ({ title: 'x', tags: 'a', payload: null, ...fields }))
    const { status, json, text } = await this.server.call('POST', '/events/batch', events)
    expect(status, text).toBe(201)
    return json.events.map((event: Json) => event.id)
  }

  subscribe(query: Record<string, string | number>): Promise<TestAnswer> {
    const all = { worker_id: 'w', ...(query.subscription === undefined && { tags: 'a' }), ...query }
    const text = Object.entries(all).map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
    return this.server.call('GET', `/events/subscribe?${text.join('&')}`)
  }

  async lease(worker = 'w', query: Record<string, string | number> = {}): Promise<Lease> {
    const { status, json, text } = await this.subscribe({ worker_id: worker, ...query })
    expect(status, text).toBe(200)
    return { ...json, worker }
  }

  async leaseMany(
    limit: number,
    worker = 'w',
    query: Record<string, string | number> = {},
  ): Promise<Lease[]> {
    const { status, json, text } = await this.subscribe({ worker_id: worker, limit, ...query })
    if (status === 204) return []
    expect(status, text).toBe(200)
    return json.map((one: Json) => ({ ...one, worker }))
  }

  /** `fail`, `complete`, `start` and so on. */
  say(verb: string, id: number, body: object): Promise<TestAnswer> {
    return this.server.call('POST', `/events/${id}/${verb}`, body)
  }

  async settle(outcomes: readonly object[], more: object = {}): Promise<Json[]> {
    const { status, json, text } = await this.server.call('POST', '/events/settle', { outcomes, ...more })
    expect(status, text).toBe(200)
    expect(json.results).toHaveLength(outcomes.length)
    return json.results
  }

  /** Everything that is known of an event. */
  async event(id: number): Promise<Json> {
    const { status, json, text } = await this.server.call('GET', `/events/${id}?include_logs=true`)
    expect(status, text).toBe(200)
    return json
  }

  async actions(id: number): Promise<string[]> {
    return (await this.event(id)).logs.map((entry: Json) => entry.action)
  }

  /** Time passes, and nobody has looked for what is overdue yet. */
  async pass(ms: number): Promise<void> {
    await moveClock(this.server.db, ms)
  }
}

/** A problem without what differs from call to call. */
export function bodyOf({ status, json }: TestAnswer): object {
  const { instance, ...rest } = json
  return { ...rest, status }
}

export const isTime = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/)
