import { describe, expect, test } from 'vitest'
import { attempted, delivered, type Line, other, published, rules, worker } from './histories.ts'

describe('the checker of the chaos driver', () => {
  test('is content with events that were published and done', () => {
    const history = [
      ...published(1, 0, [{ u: 1, id: 11 }]),
      ...attempted(worker, 1, [20, 30], { u: 1, id: 11 }),
    ]
    expect(rules(history, { deliveries: [delivered(11)] })).toEqual([])
  })

  test('misses what was acknowledged and never seen', () => {
    expect(rules(published(1, 0, [{ u: 1, id: 11 }]))).toEqual(['lost'])
  })

  test('does not believe a delivery that nobody attempted', () => {
    expect(rules(published(1, 0, [{ u: 1, id: 11 }]), { deliveries: [delivered(11)] })).toEqual(['lost'])
  })

  test('wants a reason for what was cancelled', () => {
    const history = published(1, 0, [{ u: 1, id: 11 }])
    const deliveries = [delivered(11, 'cancelled')]
    expect(rules(history, { deliveries })).toEqual(['lost'])
    const cancel = { op: 2, name: 'cancel.one', touches: 'cancel', ids: [11] }
    const cancelled = [
      { at: 12, kind: 'invoke', ...cancel },
      { at: 13, kind: 'answer', type: 'ok', ...cancel },
    ]
    expect(rules([...history, ...cancelled], { deliveries })).toEqual([])
  })

  test('wants an attempt, a lease or an operator for what is dead', () => {
    const history = published(1, 0, [{ u: 1, id: 11, type: 'pulled.x', maxRetries: 1 }])
    const deliveries = [{ ...delivered(11, 'dlq'), subscriber: 'pulled' }]
    const letters = [{ message_id: 'd11', event_id: 11, subscriber: 'pulled', manual_retry_at: null }]
    expect(rules(history, { deliveries, letters })).toEqual(['lost'])
    const leased = [
      { at: 20, kind: 'lease', pid: 7, no: 1, s: 'pulled' },
      { at: 21, kind: 'leased', pid: 7, no: 1, s: 'pulled', leaseSecs: 1, events: [{ id: 11, u: 1 }] },
    ]
    expect(rules([...history, ...leased], { deliveries, letters })).toEqual([])
    const unknown = { at: 22, kind: 'lease unknown', pid: 7, no: 1, s: 'pulled', status: 0 }
    expect(rules([...history, unknown], { deliveries, letters })).toEqual([])
  })

  test('sees what was rolled back and delivered all the same', () => {
    const history = [
      ...published(1, 0, [{ u: 1, id: 11 }], { undone: [1] }),
      ...attempted(worker, 1, [20, 30], { u: 1, id: 11 }),
    ]
    expect(rules(history)).toEqual(['unexpected'])
  })

  test('sees a payload that is not what was sent, byte for byte, where it is received and where it is stored', () => {
    const history = (hash: string) => [
      ...published(1, 0, [{ u: 1, id: 11, hash: 'a' }]),
      ...attempted(worker, 1, [20, 30], { u: 1, id: 11, hash }),
    ]
    expect(rules(history('a'), { stored: [{ id: 11, u: 1, hash: 'a' }] })).toEqual([])
    expect(rules(history('b'))).toEqual(['unexpected'])
    expect(rules(history('a'), { stored: [{ id: 11, u: 1, hash: 'b' }] })).toEqual(['unexpected'])
  })

  test('sees one event under two ids', () => {
    const history = [
      ...published(1, 0, [{ u: 1, id: 11 }]),
      ...published(2, 100, [{ u: 1, id: 12 }]),
      ...attempted(worker, 1, [200, 210], { u: 1, id: 11 }),
    ]
    expect(rules(history)).toEqual(['doubled'])
  })

  test('sees two attempts of one delivery at once, unless its process was frozen', () => {
    const history = [
      ...published(1, 0, [{ u: 1, id: 11 }]),
      { at: 20, kind: 'begin', pid: 7, no: 1, s: 'plain', u: 1, id: 11 },
      { at: 30, kind: 'begin', pid: 8, no: 1, s: 'plain', u: 1, id: 11 },
      { at: 40, kind: 'end', pid: 8, no: 1, outcome: 'ok' },
      { at: 50, kind: 'end', pid: 7, no: 1, outcome: 'ok' },
    ]
    expect(rules(history)).toEqual(['overlap'])
    const frozen = { at: 25, kind: 'fault', fault: 'freeze.long', pid: 7, phase: 'begins' }
    expect(rules([...history.slice(0, 3), frozen, ...history.slice(3)])).toEqual([])
  })

  test('sees an attempt after the one that ended well', () => {
    const event = { u: 1, id: 11 }
    const history = [
      ...published(1, 0, [event]),
      ...attempted(worker, 1, [20, 30], event),
      ...attempted(other, 2, [40, 50], event),
    ]
    expect(rules(history)).toEqual(['unjustified'])
  })

  test('sees a frozen owner of a memory queue that goes on after another has it', () => {
    const events = [1, 2, 3].map((u) => ({ u, id: 10 + u, type: 'memory.x' }))
    const run = (pid: number, u: number, at: number) =>
      attempted({ pid }, u + at, [at, at + 5], { u, id: 10 + u, s: 'memory' })
    const history = [
      ...published(1, 0, events),
      { at: 15, kind: 'fault', fault: 'freeze.owner', pid: 7, phase: 'begins' },
      { at: 20, kind: 'succession', former: 7, successor: 8 },
      ...run(8, 1, 30),
      ...run(7, 2, 50),
      ...run(7, 3, 60),
    ]
    expect(rules(history)).toEqual(['stale owner'])
    const move = { op: 9, name: 'memory.move', s: 'memory', options: { storage: 'database' } }
    const moved = [
      { at: 40, kind: 'invoke', ...move },
      { at: 45, kind: 'answer', type: 'ok', ...move },
    ]
    expect(rules([...history, ...moved])).toEqual([])
    const jump = { kind: 'fault', fault: 'clock.forward', stepMs: 3_600_000 }
    const jumped = [
      { at: 44, ...jump, phase: 'begins' },
      { at: 45, ...jump, phase: 'ends' },
    ]
    expect(rules([...history, ...jumped])).toEqual([])
    // One that jumped before the successor had the queue has ended the claim early, but not for longer than it would have lasted.
    const before = jumped.map((line) => ({ ...line, at: line.at - 20 }))
    expect(rules([...history, ...before])).toEqual([])
    const later = [2, 3].flatMap((u) => run(7, u, 5_000_000 + u * 10))
    expect(rules([...history.slice(0, -4), ...before, ...later])).toContain('stale owner')
  })

  test('does not take the settlement of one attempt for the end of the next', () => {
    const event = { u: 1, id: 11 }
    const settled = { kind: 'settled', pid: 7, s: 'plain', id: 11 }
    const history = [
      ...published(1, 0, [event]),
      ...attempted(worker, 1, [20, 30], event, 'throw'),
      { at: 40, kind: 'begin', pid: 7, no: 2, s: 'plain', ...event },
      { at: 41, ...settled, settlement: 'retry' },
      { at: 50, kind: 'end', pid: 7, no: 2, outcome: 'ok' },
      { at: 51, ...settled, settlement: 'complete' },
    ]
    expect(rules(history, { deliveries: [delivered(11)] })).toEqual([])
  })

  test('sees a batch out of order, and what came before its elders', () => {
    const [first, second] = [
      { u: 1, id: 11, key: 'k' },
      { u: 2, id: 12, key: 'k' },
    ]
    const turned = [
      ...attempted(worker, 1, [220, 230], { u: 2, id: 12 }),
      ...attempted(worker, 2, [240, 250], { u: 1, id: 11 }),
    ]
    expect(rules([...published(1, 0, [first, second]), ...turned])).toEqual(['order'])
    expect(rules([...published(1, 0, [first]), ...published(2, 100, [second]), ...turned])).toEqual(['order'])
  })

  test('sees two of one lane under way at once', () => {
    const history = [
      ...published(1, 0, [
        { u: 1, id: 11, key: 'k' },
        { u: 2, id: 12, key: 'k' },
      ]),
      { at: 20, kind: 'begin', pid: 7, no: 1, s: 'plain', u: 1, id: 11 },
      { at: 30, kind: 'begin', pid: 8, no: 1, s: 'plain', u: 2, id: 12 },
      { at: 40, kind: 'end', pid: 7, no: 1, outcome: 'ok' },
      { at: 50, kind: 'end', pid: 8, no: 1, outcome: 'ok' },
    ]
    expect(rules(history)).toEqual(['order'])
  })

  test('sees a settlement by whoever was succeeded', () => {
    const lease = (pid: number, no: number, at: number, token: string) => [
      { at, kind: 'lease', pid, no, s: 'pulled' },
      { at: at + 1, kind: 'leased', pid, no, s: 'pulled', leaseSecs: 1, events: [{ id: 11, u: 1, token }] },
    ]
    const what = { pid: 7, no: 3, s: 'pulled', u: 1, id: 11, token: 'a', verb: 'complete', byToken: true }
    const history = [
      ...published(1, 0, [{ u: 1, id: 11, type: 'pulled.x' }]),
      ...lease(7, 1, 20, 'a'),
      ...lease(8, 1, 2_000_000, 'b'),
      { at: 2_000_100, kind: 'settle', ...what },
      { at: 2_000_200, kind: 'settle ok', ...what },
      ...attempted(other, 1, [2_000_300, 2_000_400], { u: 1, id: 11, s: 'pulled', token: 'b' }),
    ]
    expect(rules(history)).toContain('fence')
    // What was asked for before another had it is only answered late.
    const early = { at: 900_000, kind: 'settle', ...what }
    expect(rules([...history.slice(0, 4), early, ...history.slice(4)])).not.toContain('fence')
  })

  test('sees a delivery that two were told they had completed', () => {
    const event = { s: 'plain', id: 11 }
    const history = [
      ...published(1, 0, [{ u: 1, id: 11 }]),
      ...attempted(worker, 1, [20, 30], { u: 1, id: 11 }),
      { at: 40, kind: 'settled', pid: 7, ...event, settlement: 'complete' },
      { at: 41, kind: 'settled', pid: 8, ...event, settlement: 'complete' },
    ]
    expect(rules(history)).toEqual(['fence'])
  })

  test('lets a memory queue repeat after a crash what it had not persisted', () => {
    const event = { u: 1, id: 11 }
    const run = (pid: number, no: number, at: number) => [
      ...attempted({ pid }, no, [at, at + 5], { ...event, s: 'memory' }),
      { at: at + 6, kind: 'settled', pid, s: 'memory', id: 11, settlement: 'complete' },
    ]
    const before = [...published(1, 0, [{ ...event, type: 'memory.x' }]), ...run(7, 1, 20)]
    expect(rules([...before, ...run(8, 1, 60)])).toEqual(['unjustified', 'after the end', 'fence'])
    const crash = { at: 40, kind: 'died', role: 'memory', pid: 7, code: null, signal: 'SIGKILL' }
    expect(rules([...before, crash, ...run(8, 1, 60)])).toEqual([])
    const frozen = { at: 41, kind: 'fault', fault: 'freeze.owner', pid: 9, phase: 'begins' }
    const begun = { at: 40, kind: 'begin', pid: 9, no: 1, s: 'memory', ...event }
    const late = { at: 70, kind: 'settled', pid: 9, s: 'memory', id: 11, settlement: 'complete' }
    const publish = published(1, 0, [{ ...event, type: 'memory.x' }])
    expect(rules([...publish, begun, frozen, ...run(8, 1, 60), late])).toEqual([])
  })

  test('knows that what a deleted subscription was owed can be pruned', () => {
    const done = (op: number, at: number, name: string, fields: Line = {}) => [
      { at, kind: 'invoke', op, name, ...fields },
      { at: at + 1, kind: 'answer', op, name, type: 'ok' },
    ]
    const history = [
      ...published(1, 0, [{ u: 1, id: 11, type: 'temp.x' }]),
      ...done(3, 60, 'prune', { olderThanMs: 0 }),
    ]
    expect(rules(history)).toEqual(['lost'])
    expect(rules([...history, ...done(2, 50, 'subscriber.delete', { s: 'temp', deletes: true })])).toEqual([])
  })

  test('sees an effect that is there twice, and a depth that nothing explains', () => {
    const queues = [{ id: 'plain', depth: 3, status: 'active' }]
    expect(rules([], { ledger: [{ id: 11, rows: 2 }] })).toEqual(['effect'])
    expect(rules([], { queues })).toEqual(['counter'])
  })

  test('sees what is left though nothing waits', () => {
    expect(rules([], { left: { runs: 0, starts: 0 } })).toEqual([])
    expect(rules([], { left: { runs: 1 } })).toEqual(['growth'])
    expect(rules([], { left: { runs: 0, starts: 2 } })).toEqual(['growth'])
  })

  test('sees one number of a lane on the webhooks of two events, and lets one event come again with its own', () => {
    const events = [1, 2].map((u) => ({ u, id: 10 + u, type: 'hook.x', key: 'k' }))
    const sent = (u: number, at: number, epoch: number) =>
      attempted(worker, u + at, [at, at + 5], {
        ...{ u, id: 10 + u, s: 'hook', key: 'k', epoch, sequence: 1 },
      })
    const first = [...published(1, 0, events), ...sent(1, 20, 7)]
    expect(rules([...first, ...sent(2, 40, 7)])).toEqual(['number twice'])
    expect(rules([...first, ...sent(2, 40, 8)])).toEqual([])
    const again = attempted(worker, 9, [60, 65], { ...events[0], s: 'hook', epoch: 7, sequence: 1 })
    expect(rules([...first, ...again])).not.toContain('number twice')
  })

  test('sees lists that refuse, repeat or leave something out', () => {
    const walk = (of: string, path: string, names: readonly number[]) => ({
      of,
      path,
      names,
      eventIds: names,
    })
    const stored = [11, 12].map((id) => ({ id, u: id - 10, type: 'plain.x' }))
    const history = published(1, 0, [
      { u: 1, id: 11 },
      { u: 2, id: 12 },
    ])
    const done = [11, 12].flatMap((id) => attempted(worker, id, [20, 30], { u: id - 10, id }))
    const judged = (names: readonly number[]) =>
      rules([...history, ...done], {
        stored,
        walks: [walk('events', 'the database', [11, 12]), walk('events', '/events', names)],
      })
    expect(judged([11, 12])).toEqual([])
    // What the hub itself publishes may come at any time.
    expect(judged([11, 12, 99])).toEqual([])
    expect(judged([11])).toEqual(['list'])
    const letterless = { deliveries: [delivered(11), delivered(12, 'expired')] }
    const walks = [walk('events', 'the database', [11, 12]), walk('events', '/events by status', [11])]
    expect(rules([...history, ...done], { ...letterless, stored, walks })).toContain('list')
    expect(judged([11, 12, 12])).toEqual(['list'])
    expect(rules([{ at: 1, kind: 'wrong list', path: '/events', why: 'was answered 400' }])).toEqual(['list'])
  })

  test('sees what upkeep had to wake, in any process, also in one that is dead by now', () => {
    const metric = (value: number) => `posthorn_wakeups_lost_total{kind="lane"} ${value}`
    expect(rules([], { metrics: [metric(0), metric(0)] })).toEqual([])
    expect(rules([], { metrics: [metric(0), metric(2)] })).toEqual(['asleep'])
    const woken = { at: 5, pid: 7, kind: 'woken', what: 'lane', s: 'plain', key: 'k' }
    expect(rules([woken], { metrics: [metric(0)] })).toEqual(['asleep'])
  })

  test('sees an answer 500 and a process that ended by itself', () => {
    expect(rules([{ at: 1, kind: 'server error', path: '/events' }])).toEqual(['server error'])
    expect(rules([{ at: 1, kind: 'died', pid: 7, role: 'worker0', code: 1, signal: null }])).toEqual(['died'])
  })
})
