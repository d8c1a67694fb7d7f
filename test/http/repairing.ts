import { expect } from 'vitest'
import { type Json, type Lease, Pulling } from './pulling.ts'

/** What operators do, in as few words as the tests need. */
export class Repairing extends Pulling {
  /** A pull subscription to `note`; its id. */
  async subscriber(name: string, fields: object = {}): Promise<string> {
    const body = { name, via: 'pull', event_types: ['note'], retry_delay_seconds: 60, ...fields }
    return (await this.ask('POST', '/subscribers', body, 201)).id
  }

  note(fields: object = {}): Promise<number> {
    return this.publish({ type: 'note', tags: undefined, ...fields })
  }

  take(subscription: string): Promise<Lease> {
    return this.lease('w', { subscription })
  }

  async fail(lease: Lease, more: object = {}): Promise<void> {
    const { lease_token, id } = lease
    const { status, text } = await this.say('fail', id, { lease_token, error_message: 'no luck', ...more })
    expect(status, text).toBe(200)
  }

  async complete({ lease_token, id }: Lease): Promise<void> {
    const { status, text } = await this.say('complete', id, { lease_token })
    expect(status, text).toBe(200)
  }

  /** Leases and completes until nothing is left; the order of the events. */
  async workOff(subscription: string): Promise<number[]> {
    const order: number[] = []
    for (;;) {
      const { status, json } = await this.subscribe({ subscription })
      if (status === 204) return order
      order.push(json.id)
      await this.complete(json)
    }
  }

  /** The body of an answer that has this status. */
  async ask(method: string, path: string, body?: unknown, expected = 200): Promise<Json> {
    const { status, json, text } = await this.server.call(method, path, body)
    expect(status, `${method} ${path}: ${text}`).toBe(expected)
    return json
  }

  /** The deliveries of an event. */
  async deliveries(eventId: number): Promise<Json[]> {
    return (await this.ask('GET', `/deliveries?event_id=${eventId}`)).deliveries
  }

  async delivery(eventId: number): Promise<Json> {
    const [only, ...others] = await this.deliveries(eventId)
    expect(others).toEqual([])
    return only
  }

  async letters(query = ''): Promise<Json[]> {
    return (await this.ask('GET', `/dlq${query}`)).dead_letters
  }

  /** Publishes, leases and fails for good. */
  async buried(subscription: string, fields: object = {}): Promise<number> {
    const id = await this.note(fields)
    await this.fail(await this.take(subscription), { permanent: true })
    return id
  }

  async adminLog(): Promise<Json[]> {
    const { rows } = await this.server.db.query(
      `select actor, action, target from ${this.server.db.schema}.admin_log order by id`,
    )
    return rows
  }
}
