import { describe, expect, test } from 'vitest'
import { attempted, delivered, type Line, operated, other, published, rules, worker } from './histories.ts'

describe('the excuses of the checker', () => {
  test('lets a filter excuse only what it covers, and only while it is under way', () => {
    const event = { u: 1, id: 11 }
    const history = [
      ...published(1, 0, [event]),
      ...attempted(worker, 1, [20, 30], event),
      { at: 31, kind: 'settled', pid: 7, s: 'plain', id: 11, settlement: 'complete' },
      ...attempted(other, 2, [5_000_000, 5_000_010], event),
    ]
    const redrive = { touches: 'redrive', s: 'plain' }
    // What is completed is no dead letter: no filter on those covers it.
    expect(rules([...history, ...operated(2, [40, 50], 'redrive.filter', redrive)])).toContain(
      'after the end',
    )
    const replay = { touches: 'replay', s: 'plain', ids: [11] }
    expect(rules([...history, ...operated(2, [40, 50], 'replay', replay)])).toEqual([])
    expect(rules([...history, ...operated(2, [40, 50], 'replay', { ...replay, s: 'gated' })])).not.toEqual([])
  })

  test('misses what is gone though nobody could have removed it', () => {
    const history = [
      ...published(1, 0, [{ u: 1, id: 11 }]),
      ...attempted(worker, 1, [20, 30], { u: 1, id: 11 }),
    ]
    const gone = { deliveries: [] }
    expect(rules(history, gone)).toEqual(['lost'])
    const prune = (olderThanMs: number) => operated(2, [40, 50], 'prune', { olderThanMs })
    expect(rules([...history, ...prune(0)], gone)).toEqual([])
    expect(rules([...history, ...prune(9_000)], gone)).toEqual(['lost'])
    const halfway = prune(0).map((line) => ('type' in line ? { ...line, type: 'fail' } : line))
    expect(rules([...history, ...halfway], gone)).toEqual([])
  })

  test('knows that a letter which was written while the clock was back can be pruned before its event', () => {
    const step = (at: number, stepMs: number) =>
      ['begins', 'ends'].map((phase) => ({
        at,
        kind: 'fault',
        fault: `clock.${stepMs > 0 ? 'forward' : 'back'}`,
        phase,
        stepMs,
      }))
    const history = (steps: Line[]) => [
      ...published(1, 0, [{ u: 1, id: 11 }]),
      ...steps,
      ...attempted(worker, 1, [20, 30], { u: 1, id: 11 }, 'bury'),
      { at: 31, kind: 'settled', pid: 7, s: 'plain', id: 11, settlement: 'bury' },
      ...step(40, 3_600_000),
      ...operated(2, [50, 60], 'prune', { olderThanMs: 900_000 - 2_000 }),
    ]
    const final = { deliveries: [delivered(11, 'dlq')], letters: [] }
    expect(rules(history(step(10, -3_600_000)), final)).toEqual([])
    const halfway = history(step(10, -3_600_000)).filter(({ at }) => at !== 40)
    expect(rules(halfway, final)).toEqual(['counter'])
  })

  test('lets the skip of a lane bury whichever event is its head by then', () => {
    const events = [
      { u: 1, id: 11, key: 'k' },
      { u: 2, id: 12, key: 'k' },
    ]
    const history = [
      ...published(1, 0, events),
      ...attempted(worker, 1, [20, 30], { u: 1, id: 11 }),
      { at: 31, kind: 'settled', pid: 7, s: 'plain', id: 11, settlement: 'complete' },
    ]
    const letters = [{ message_id: 'd12', event_id: 12, subscriber: 'plain', manual_retry_at: null }]
    const final = { deliveries: [delivered(11), delivered(12, 'dlq')], letters }
    const skip = (key: string) =>
      operated(2, [40, 50], 'lane.skip', { touches: 'lane skip', s: 'plain', key, ids: [11] })
    expect(rules([...history, ...skip('k')], final)).toEqual([])
    expect(rules([...history, ...skip('other')], final)).not.toEqual([])
  })

  test('counts a failure for a pull worker that ended well after its lease did, and not otherwise', () => {
    const event = { u: 1, id: 11, s: 'pulled', token: 'a' }
    const history = [
      ...published(1, 0, [{ u: 1, id: 11, type: 'pulled.x' }]),
      { at: 20, kind: 'lease', pid: 7, no: 1, s: 'pulled' },
      { at: 21, kind: 'leased', pid: 7, no: 1, s: 'pulled', leaseSecs: 1, events: [event] },
      ...attempted(worker, 1, [22, 1_200_000], event),
      { at: 1_200_001, kind: 'settle', verb: 'complete', pid: 7, no: 1, ...event },
    ]
    const answer = { at: 1_200_002, verb: 'complete', pid: 7, no: 1, ...event }
    const final = { deliveries: [{ ...delivered(11), subscriber: 'pulled', attempt_count: 1, failures: 1 }] }
    expect(rules([...history, { ...answer, kind: 'settle refused' }], final)).toEqual([])
    expect(rules([...history, { ...answer, kind: 'settle ok' }], final)).toEqual(['counter'])
  })

  test('lets a lease that ended before its attempt bury an event that is allowed one failure', () => {
    const event = { u: 1, id: 11, s: 'pulled', token: 'a' }
    const buried = (leaseSecs: number) => [
      ...published(1, 0, [{ u: 1, id: 11, type: 'pulled.x', maxRetries: 1 }]),
      { at: 20, kind: 'lease', pid: 7, no: 1, s: 'pulled' },
      { at: 21, kind: 'leased', pid: 7, no: 1, s: 'pulled', leaseSecs, events: [event] },
      ...attempted(worker, 1, [22, 2_300_000], event),
      { at: 2_300_001, kind: 'settle', verb: 'complete', pid: 7, no: 1, ...event },
      { at: 2_300_002, kind: 'settle refused', verb: 'complete', pid: 7, no: 1, ...event },
    ]
    const letters = [{ message_id: 'd11', event_id: 11, subscriber: 'pulled', manual_retry_at: null }]
    const dead = { ...delivered(11, 'dlq'), subscriber: 'pulled', attempt_count: 1, failures: 1 }
    const final = { deliveries: [dead], letters }
    expect(rules(buried(1), final)).not.toContain('failures')
    expect(rules(buried(60), final)).toContain('failures')
  })

  test('lets a small step of the clock shorten the lease of a pull worker, by as much as it steps', () => {
    const event = (token: string) => ({ u: 1, id: 11, s: 'pulled', token })
    const [first, second] = [event('a'), event('b')]
    const leased = (pid: number, at: number, event: Line) => [
      { at, kind: 'lease', pid, no: 1, s: 'pulled' },
      { at: at + 1, kind: 'leased', pid, no: 1, s: 'pulled', leaseSecs: 2, events: [event] },
    ]
    const history = [
      ...published(1, 0, [{ u: 1, id: 11, type: 'pulled.x' }]),
      ...leased(7, 20, first),
      ...attempted(worker, 1, [22, 2_100_000], first),
      ...leased(8, 1_400_000, second),
      ...attempted(other, 1, [1_500_000, 1_600_000], second),
    ]
    const stepped = (stepMs: number) => [
      { at: 500_000, kind: 'fault', fault: 'clock.forward', stepMs, phase: 'begins' },
      { at: 500_010, kind: 'fault', fault: 'clock.forward', stepMs, phase: 'ends' },
    ]
    expect(rules([...history, ...stepped(100)])).toContain('overlap')
    expect(rules([...history, ...stepped(800)])).not.toContain('overlap')
  })

  test('knows that leases which nobody began can bury an event, which can then be pruned', () => {
    const history = [
      ...published(1, 0, [{ u: 1, id: 11, type: 'pulled.x' }]),
      ...operated(2, [5_000_000, 5_000_010], 'prune', { olderThanMs: 0 }),
    ]
    const leased = [
      { at: 20, kind: 'lease', pid: 7, no: 1, s: 'pulled' },
      { at: 21, kind: 'leased', pid: 7, no: 1, s: 'pulled', leaseSecs: 1, events: [{ id: 11, u: 1 }] },
    ]
    expect(rules(history, { deliveries: [] })).toEqual(['lost'])
    expect(rules([...history, ...leased], { deliveries: [] })).toEqual([])
  })

  test('knows that a memory queue never writes what was settled before it was persisted', () => {
    const event = { u: 1, id: 11 }
    const publish = (durability: string) =>
      published(1, 0, [{ ...event, type: 'memory.x' }]).map((line) =>
        line.kind === 'answer' ? { ...line, answers: [{ id: 11, durability }] } : line,
      )
    const done = [
      ...attempted(worker, 1, [20, 30], { ...event, s: 'memory' }),
      { at: 31, kind: 'settled', pid: 7, s: 'memory', id: 11, settlement: 'complete' },
    ]
    const gone = { deliveries: [] }
    expect(rules([...publish('process'), ...done], gone)).toEqual([])
    expect(rules([...publish('durable'), ...done], gone)).toEqual(['lost'])
    expect(rules(publish('process'), gone)).toEqual(['lost'])
  })

  test('wants as many failures as are allowed before a burial, and no more', () => {
    const event = { u: 1, id: 11 }
    const failures = (count: number) =>
      Array.from({ length: count }, (_, n) => [
        ...attempted(worker, n, [100 + n * 10, 105 + n * 10], event, 'throw'),
        { at: 106 + n * 10, kind: 'settled', pid: 7, s: 'plain', id: 11, settlement: 'retry' },
      ]).flat()
    const letters = [{ message_id: 'd11', event_id: 11, subscriber: 'plain', manual_retry_at: null }]
    const buried = { deliveries: [delivered(11, 'dlq')], letters }
    const publish = published(1, 0, [event])
    expect(rules([...publish, ...failures(4)], buried)).toEqual([])
    expect(rules([...publish, ...failures(1)], buried)).toEqual(['failures'])
    expect(rules([...publish, ...failures(5)], buried)).toEqual(['failures'])
    const bury = operated(2, [90, 95], 'delivery.bury', { touches: 'bury', s: 'plain', ids: [11] })
    expect(rules([...publish, ...bury, ...failures(1)], buried)).toEqual([])
  })

  test('compares what is told of attempts and letters with what happened', () => {
    const history = [
      ...published(1, 0, [{ u: 1, id: 11 }]),
      ...attempted(worker, 1, [20, 30], { u: 1, id: 11 }),
    ]
    const told = (counts: Line) => ({ deliveries: [{ ...delivered(11), ...counts }] })
    expect(rules(history, told({ attempt_count: 1, failures: 0 }))).toEqual([])
    expect(rules(history, told({ attempt_count: 2, failures: 0 }))).toEqual(['counter'])
    expect(rules(history, told({ attempt_count: 1, failures: 1 }))).toEqual(['counter'])
    const letters = [{ message_id: 'd11', event_id: 11, subscriber: 'plain', manual_retry_at: null }]
    expect(rules(history, { letters })).toEqual(['counter'])
  })

  test('sees what nobody asked for, and what was rolled back and stored', () => {
    const history = [
      ...published(1, 0, [{ u: 1, id: 11 }]),
      ...attempted(worker, 1, [20, 30], { u: 1, id: 11, s: 'gated' }),
      ...attempted(worker, 2, [20, 30], { u: 1, id: 11 }),
    ]
    expect(rules(history)).toEqual(['unexpected'])
    const undone = published(1, 0, [{ u: 1, id: 11 }], { undone: [1] })
    expect(rules(undone, { stored: [{ id: 11, u: 1 }] })).toEqual(['unexpected'])
    expect(rules(undone)).toEqual([])
  })

  test('sees a settlement that is accepted after a reset', () => {
    const what = { pid: 7, no: 3, s: 'pulled', u: 1, id: 11, token: 'a', verb: 'complete' }
    const history = [
      ...published(1, 0, [{ u: 1, id: 11, type: 'pulled.x' }]),
      { at: 20, kind: 'lease', pid: 7, no: 1, s: 'pulled' },
      {
        at: 21,
        kind: 'leased',
        pid: 7,
        no: 1,
        s: 'pulled',
        leaseSecs: 1,
        events: [{ id: 11, u: 1, token: 'a' }],
      },
      ...attempted(worker, 3, [22, 60], { u: 1, id: 11, s: 'pulled', token: 'a' }),
      { at: 61, kind: 'settle', ...what, byToken: true },
      { at: 62, kind: 'settle ok', ...what },
    ]
    const reset = (from: number) => operated(2, [from, from + 5], 'reset', { touches: 'reset', ids: [11] })
    expect(rules([...history, ...reset(30)])).toEqual(['fence'])
    expect(rules([...history, ...reset(58)])).toEqual([])
  })

  test('lets only the server that was asked excuse a repeat of what a pull worker or a webhook had', () => {
    const processes = [0, 1].map((n) => ({ at: 0, kind: 'process', pid: 20 + n, role: `server${n}` }))
    const frozen = (n: number) => ({
      ...{ at: 25, kind: 'fault', fault: 'freeze.long', pid: 20 + n, role: `server${n}`, phase: 'begins' },
    })
    const leased = (pid: number, at: number, token: string, server: string) => [
      { at, kind: 'lease', pid, no: at, s: 'pulled' },
      {
        at: at + 1,
        kind: 'leased',
        pid,
        no: at,
        s: 'pulled',
        leaseSecs: 2,
        server,
        events: [{ id: 11, token }],
      },
    ]
    const pulled = [
      ...[...processes, ...published(1, 0, [{ u: 1, id: 11, type: 'pulled.x' }])],
      ...leased(7, 15, 'a', 'server0'),
      ...attempted(worker, 1, [20, 30], { u: 1, id: 11, s: 'pulled', token: 'a' }),
      ...leased(8, 35, 'b', 'server0'),
      ...attempted(other, 1, [40, 50], { u: 1, id: 11, s: 'pulled', token: 'b' }),
    ]
    expect(rules([...pulled, frozen(1)])).toEqual(['unjustified'])
    expect(rules([...pulled, frozen(0)])).toEqual([])
    const sent = { u: 1, id: 11, s: 'hook', by: 20 }
    const hooked = [
      ...[...processes, ...published(1, 0, [{ u: 1, id: 11, type: 'hook.x' }])],
      ...attempted(worker, 1, [20, 30], sent),
      ...attempted(worker, 2, [40, 50], sent),
    ]
    expect(rules([...hooked, frozen(1)])).toEqual(['unjustified'])
    expect(rules([...hooked, frozen(0)])).toEqual([])
  })

  test('lets a process that handed a marked delivery back too late be charged, and no other', () => {
    const event = { u: 1, id: 11 }
    const history = [
      ...published(1, 0, [event]),
      ...attempted(worker, 1, [20, 30], event),
      { at: 31, kind: 'settled', pid: 7, s: 'plain', id: 11, settlement: 'complete' },
    ]
    const charged = { deliveries: [{ ...delivered(11), attempt_count: 2, failures: 1 }] }
    const lost = (pid: number, why: string) => ({ at: 15, kind: 'lost', pid, s: 'plain', id: 11, why })
    expect(rules(history, charged)).toEqual(['counter'])
    expect(rules([...history, lost(8, 'its settlement came too late')], charged)).toEqual([])
    expect(rules([...history, lost(7, 'its settlement came too late')], charged)).not.toEqual([])
    expect(rules([...history, lost(8, 'its lease could not be renewed')], charged)).not.toEqual([])
  })

  test('lets a worker of the client that handed a delivery back after its lease be charged once for each time', () => {
    const second = 1_000_000
    const event = { u: 1, id: 11, s: 'client' }
    const carried = (at: number) => ({
      at,
      kind: 'carried',
      pid: 7,
      s: 'client',
      server: 'server0',
      ids: [11],
    })
    const served = (at: number, settlement: string) => ({
      ...{ at, kind: 'served', pid: 20, s: 'client', id: 11, settlement },
    })
    const history = (backAt: readonly number[]) => [
      ...published(1, 0, [{ u: 1, id: 11, type: 'client.x' }]),
      ...backAt.flatMap((at, n) => [carried(n * 10 * second + 20), served(at, 'release')]),
      carried(90 * second),
      ...attempted(worker, 1, [90 * second + 10, 90 * second + 20], event),
      served(90 * second + 30, 'complete'),
    ]
    const told = (failures: number) => ({
      deliveries: [{ ...delivered(11), subscriber: 'client', attempt_count: failures + 1, failures }],
    })
    expect(rules(history([4 * second, 14 * second]), told(2))).toEqual([])
    expect(rules(history([4 * second, 14 * second]), told(3))).toEqual(['counter'])
    expect(rules(history([4 * second, 12 * second]), told(2))).toEqual(['counter'])
    const jump = { kind: 'fault', fault: 'clock.forward', stepMs: 3_600_000 }
    const jumped = ['begins', 'ends'].map((phase) => ({ at: 11 * second, ...jump, phase }))
    const [leased, rest] = [history([4 * second]), history([4 * second, 12 * second]).slice(4)]
    expect(rules([...leased.slice(0, 4), ...jumped, ...rest], told(2))).toEqual([])
  })

  test('lets a process lose a lease if others of its leases ran out by its own count, and no other process', () => {
    const lost = (pid: number, at: number, why: string, id = 11) => ({
      at,
      kind: 'lost',
      pid,
      s: 'plain',
      id,
      why,
    })
    const history = (more: readonly Line[]) => [
      ...published(1, 0, [{ u: 1, id: 11 }]),
      ...more,
      lost(7, 9_000_000, 'its lease was lost'),
      ...attempted(other, 1, [10_000_000, 10_000_010], { u: 1, id: 11 }),
    ]
    const ranOut = (pid: number, at: number) => lost(pid, at, 'its lease ran out before it could begin', 10)
    expect(rules(history([]))).toEqual(['reclaim'])
    expect(rules(history([ranOut(7, 8_000_000)]))).toEqual([])
    expect(rules(history([ranOut(8, 8_000_000)]))).toEqual(['reclaim'])
    expect(rules(history([ranOut(7, 5_000_000)]))).toEqual(['reclaim'])
  })
})
