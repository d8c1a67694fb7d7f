import { describe, expect, test } from 'vitest'
import { useServers } from '../support/http.ts'
import { type Json, type Lease, Pulling } from './pulling.ts'

const servers = useServers('cancel_many')

describe('cancelling by filter', () => {
  test('reaches leased events beyond the first 1,000, and comes to an end', async () => {
    const pulling = new Pulling(await servers.open())
    const leases: Lease[] = []
    for (const count of [1_000, 150]) {
      await pulling.publishMany(count)
      leases.push(...(await pulling.leaseMany(count)))
    }
    await pulling.publishMany(50)
    expect(leases).toHaveLength(1_150)

    const answers = await cancelAll(pulling, { tags: 'a' })
    // How many a call reaches depends on how busy the machine is.
    expect(answers.length).toBeGreaterThan(1)
    for (const { cancelled, told } of answers) expect(cancelled + told).toBeLessThanOrEqual(1_000)
    expect(sumOf(answers, 'told')).toBe(1_150)
    expect(sumOf(answers, 'cancelled')).toBe(50)
    for (const lease of [leases[0], leases.at(-1)] as Lease[]) {
      const { json } = await pulling.say('heartbeat', lease.id, { lease_token: lease.lease_token })
      expect(json).toMatchObject({ cancelled: true })
    }
    expect(sumOf(await cancelAll(pulling, { tags: 'a', status: 'PENDING' }), 'cancelled')).toBe(0)
  })

  test('leaves finished events alone, and does not ask to be called again for them', async () => {
    const pulling = new Pulling(await servers.open())
    await pulling.publishMany(1_000, { tags: undefined, type: 'nobody.wants' })
    await pulling.publish({ tags: undefined, type: 'nobody.wants' })
    for (const filter of [{ type: 'nobody.*' }, { type: 'nobody.*', status: 'COMPLETED' }]) {
      expect(await cancelAll(pulling, filter)).toEqual([{ cancelled: 0, told: 0, more: false }])
    }
  })

  test('a cursor is no filter, and belongs to no other list', async () => {
    const pulling = new Pulling(await servers.open())
    await pulling.publishMany(2)
    const { json } = await pulling.server.call('GET', '/events?limit=1')
    const cursor = json.next_cursor
    const refused = async (body: object) => {
      const answer = await pulling.server.call('POST', '/events/cancel', body)
      return [answer.status, answer.json.field ?? answer.json.option]
    }
    expect(await refused({ cursor })).toEqual([422, 'ids'])
    expect(await refused({ ids: [1], cursor })).toEqual([422, 'cursor'])
    expect(await refused({ tags: 'a', cursor })).toEqual([422, 'cursor'])
  })
})

function sumOf(answers: readonly Json[], field: string): number {
  return answers.reduce((sum, answer) => sum + answer[field], 0)
}

/** Calls again as the answers ask for, and gives all of them. */
async function cancelAll(pulling: Pulling, filter: object): Promise<Json[]> {
  const answers: Json[] = []
  let cursor: string | undefined
  do {
    const { status, json, text } = await pulling.server.call('POST', '/events/cancel', { ...filter, cursor })
    expect(status, text).toBe(200)
    answers.push(json)
    expect(json.more).toBe(json.next_cursor !== undefined)
    cursor = json.next_cursor
  } while (cursor !== undefined)
  return answers
}
