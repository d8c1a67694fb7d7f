import { afterEach, expect, test, vi } from 'vitest'
import { useServers } from '../support/http.ts'
import { eventually } from '../support/signal.ts'
import { Caller } from './caller.ts'
import { Pulling } from './pulling.ts'
import { listenToStatements, park } from './waiting.ts'

/** Many calls that are parked: what they cost. */

const servers = useServers('crowd')
const open = async () => new Pulling(await servers.open())
const callers: Caller[] = []
afterEach(() => {
  for (const caller of callers.splice(0)) caller.hangUp()
  vi.restoreAllMocks()
})

test('a thousand who wait cost three statements a second at most, and hardly any time', async () => {
  const pulling = await open()
  const { hub, url } = pulling.server
  while (callers.length < 1000) {
    const more = await Promise.all(Array.from({ length: 100 }, () => Caller.to(url)))
    for (const [no, caller] of more.entries()) {
      caller.get(`/events/subscribe?tags=t${no % 20},u${no % 7}&worker_id=w${no}&wait=60`)
    }
    callers.push(...more)
    await eventually('all are parked', () => hub.pull.waiting === callers.length)
  }
  const statements = listenToStatements()
  const cpu = process.cpuUsage()
  const startedAt = performance.now()
  await eventually('five seconds have passed', () => performance.now() - startedAt >= 5_000)
  const seconds = (performance.now() - startedAt) / 1000
  const { user, system } = process.cpuUsage(cpu)
  expect(statements.names.length, statements.names.join(', ')).toBeLessThanOrEqual(3 * seconds)
  expect((user + system) / 1e6 / seconds).toBeLessThan(0.25)
  // When something waits that is for none of them, all of them are asked for by one statement.
  await pulling.publish({ tags: 'nobody’s' })
  const looks = statements.count('peek')
  await eventually('it was looked twice', () => statements.count('peek') >= looks + 2)
  expect(statements.count('count_offers')).toBeLessThanOrEqual(3)
  // Of a thousand, hardly anybody asks in vain.
  expect(statements.count('lease')).toBeLessThanOrEqual(3)
  expect(hub.pull.waiting).toBe(1000)
})

test('those who wait at a limit are woken one by one, as there is room', async () => {
  const pulling = await open()
  const { hub, call } = pulling.server
  const queue = { name: 'narrow', via: 'pull', event_types: ['x'], max_concurrency: 2 }
  expect(await call('POST', '/subscribers', queue)).toMatchObject({ status: 201 })
  const ids = await pulling.publishMany(100, { type: 'x', tags: null })
  const held = await pulling.leaseMany(2, 'first', { subscription: 'narrow' })
  expect(held.map(({ id }) => id)).toEqual(ids.slice(0, 2))
  const calls = await park(pulling, 50, { subscription: 'narrow' })
  const statements = listenToStatements()
  await eventually('it was looked twice', () => statements.count('peek') >= 2)
  expect(statements.count('lock_limits')).toBeLessThanOrEqual(3)
  await eventually('all sleep again', () => hub.pull.waiting === 50)
  const given: Promise<number>[] = calls.map((one) => one.then(({ json }) => json?.id))
  for (const { id, lease_token } of held) await pulling.say('complete', id, { lease_token })
  await eventually('two more have got one', () => hub.pull.waiting === 48)
  await hub.pull.stop()
  const got = (await Promise.all(given)).filter((id) => id !== undefined)
  expect(got.sort((a, b) => a - b)).toEqual(ids.slice(2, 4))
})
