import { describe, expect, test } from 'vitest'
import { useServers } from '../support/http.ts'
import { claimOf, claims } from './pulling.ts'
import { Repairing } from './repairing.ts'

/** What a worker says of a lease that has ended and was taken back, before anybody else has leased. */

const servers = useServers('late_settle')
const open = async () => new Repairing(await servers.open())
const leaseMs = 60_000

/** A worker sleeps until its lease was taken back. */
async function leaseThatEnds(worker: Repairing) {
  const lease = await worker.lease()
  await worker.server.clock.advance(leaseMs + 1_000)
  return lease
}

describe.each(claims)('by %s', (by) => {
  test.each(['cancel', 'bury'] as const)(
    'after a %s of the head of its lane a lease that has ended does not settle the next event, which nobody has leased',
    async (verb) => {
      const worker = await open()
      const [head, next] = (await worker.publishMany(3, { ordering_key: 'k' })) as [number, number]
      const claim = claimOf(by, await leaseThatEnds(worker))
      const of = verb === 'cancel' ? `/events/${head}` : `/deliveries/${(await worker.delivery(head)).id}`
      await worker.ask('POST', `${of}/${verb}`)
      for (const settlement of ['complete', 'release']) {
        const late = await worker.say(settlement, next, claim)
        expect(late, `${settlement}: ${late.text}`).toMatchObject({
          status: 409,
          json: { code: 'lease_lost' },
        })
      }
      expect(await worker.event(next)).toMatchObject({ status: 'PENDING', retry_count: 0 })
      expect(await worker.lease()).toMatchObject({ id: next, attempt: 1 })
    },
  )

  test('after the late completion of a head its lease does not settle the next event of the lane', async () => {
    const worker = await open()
    const [head, next] = (await worker.publishMany(2, { ordering_key: 'k' })) as [number, number]
    const claim = claimOf(by, await leaseThatEnds(worker))
    expect(await worker.say('complete', head, claim)).toMatchObject({ status: 200 })
    expect(await worker.say('complete', next, claim)).toMatchObject({ status: 409 })
    expect(await worker.event(next)).toMatchObject({ status: 'PENDING' })
  })

  test.each(['release', 'snooze'])(
    'an event whose leases always end before its worker says %s is not tried for ever',
    async (outcome) => {
      const worker = await open()
      const id = await worker.publish({ max_retries: 3 })
      for (let failures = 1; failures < 3; failures++) {
        const claim = claimOf(by, await leaseThatEnds(worker))
        expect(await worker.settle([{ event_id: id, outcome, ...claim }])).toMatchObject([{ status: 200 }])
        expect(await worker.event(id)).toMatchObject({ status: 'PENDING', retry_count: failures })
        await worker.server.clock.advance(2_000)
      }
      await leaseThatEnds(worker)
      expect(await worker.event(id)).toMatchObject({ status: 'FAILED', retry_count: 3 })
    },
  )

  test.each([
    ['bury', 'FAILED', 1],
    ['fail', 'PENDING', 1],
    ['complete', 'COMPLETED', 0],
  ] as const)(
    'of a lease that has ended, %s counts the failure no more than once',
    async (outcome, status, failures) => {
      const worker = await open()
      const id = await worker.publish()
      const claim = claimOf(by, await leaseThatEnds(worker))
      const said = outcome === 'complete' ? {} : { error_message: 'no luck' }
      expect(await worker.settle([{ event_id: id, outcome, ...said, ...claim }])).toMatchObject([
        { status: 200 },
      ])
      expect(await worker.event(id)).toMatchObject({ status, retry_count: failures })
    },
  )
})
