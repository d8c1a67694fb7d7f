import { describe, expect, test } from 'vitest'
import { attempted, type Line, operated, other, published, rules, worker } from './histories.ts'

const second = 1_000_000
const event = { u: 1, id: 11 }
const born = { at: 0, kind: 'process', pid: 8, role: 'worker1' }
const killed = { at: second, kind: 'died', role: 'worker0', pid: 7, code: null, signal: 'SIGKILL' }
const begun = { at: second / 2, kind: 'begin', pid: 7, no: 1, s: 'plain', ...event }

/** Killed after a second with an attempt under way, which comes again at that time. */
const again = (at: number, more: readonly Line[] = []) => [
  ...[born, ...published(1, 0, [event]), begun, killed],
  ...attempted(other, 1, [at, at + 5], event),
  ...more,
]
const span = (kind: Line, from: number, to: number) => [
  { at: from, kind: 'fault', phase: 'begins', ...kind },
  { at: to, kind: 'fault', phase: 'ends', ...kind },
]

describe('what a killed process had under way', () => {
  test('comes again within its lease and 6 s', () => {
    expect(rules(again(10 * second))).toEqual([])
    expect(rules(again(12 * second))).toEqual(['recovery'])
  })

  test('may come later by as long as the database was away, its queue stood or the clock went back', () => {
    const away = span({ fault: 'database.kill' }, 3 * second, 6 * second)
    expect(rules(again(12 * second, away))).toEqual([])
    expect(rules(again(16 * second, away))).toEqual(['recovery'])
    const paused = (s: string) => [
      ...operated(2, [2 * second, 3 * second], 'queue.pause', { s, change: 'pause' }),
      ...operated(3, [8 * second, 9 * second], 'queue.resume', { s, change: 'resume' }),
    ]
    expect(rules(again(12 * second, paused('plain')))).toEqual([])
    expect(rules(again(12 * second, paused('gated')))).toEqual(['recovery'])
    const back = (stepMs: number) => span({ fault: 'clock.back', stepMs }, 3 * second, 3 * second + 10)
    expect(rules(again(12 * second, back(-5_000)))).toEqual([])
    expect(rules(again(12 * second, back(-500)))).toEqual(['recovery'])
  })

  test('may come later if a process that could begin it was in trouble, or an operator was at it', () => {
    const third = { at: 0, kind: 'process', pid: 9, role: 'worker.bouncer' }
    const frozen = (length: string) =>
      span({ fault: `freeze.${length}`, pid: 8, role: 'worker1' }, 2 * second, 9 * second)
    expect(rules(again(12 * second, frozen('long')))).toEqual([])
    // It may have had the delivery, for a lease more.
    expect(rules(again(12 * second, [third, ...frozen('long')]))).toEqual([])
    expect(rules(again(12 * second, [third, ...frozen('short')]))).toEqual(['recovery'])
    const touched = (touches: string) =>
      operated(2, [2 * second, 3 * second], touches, { touches, s: 'plain', ids: [11] })
    expect(rules(again(12 * second, touched('cancel')))).toEqual([])
    // A retry makes it come sooner, unless it was dead.
    expect(rules(again(12 * second, touched('retry')))).toEqual(['recovery'])
  })

  test('may come later while a worker of the client had an older one in hand, begun or not', () => {
    const client = { s: 'client' }
    const held = (id: number) => [
      ...[2, 3, 4, 5].map((secs) => ({
        ...{ at: secs * second, kind: 'carried', pid: 8, s: 'client', server: 'server0', ids: [id] },
      })),
      { at: 5 * second + 1, kind: 'served', pid: 9, s: 'client', id, settlement: 'release' },
    ]
    const late = (more: readonly Line[]) => [
      { ...born, role: 'client1' },
      ...published(1, 0, [{ ...event, type: 'client.x' }]),
      { ...begun, ...client },
      { ...killed, role: 'client0' },
      ...more,
      ...attempted(other, 1, [12 * second, 12 * second + 5], { ...event, ...client }),
    ]
    expect(rules(late([]))).toEqual(['recovery'])
    expect(rules(late(held(10)))).toEqual([])
    expect(rules(late(held(12)))).toEqual(['recovery'])
  })

  test('is judged by the server that had sent it, where it is a webhook', () => {
    const hook = { ...event, s: 'hook', by: 7 }
    const sent = [
      ...published(1, 0, [{ ...event, type: 'hook.x' }]),
      ...[{ at: 0, kind: 'process', pid: 9, role: 'receiver' }, born],
      { at: second / 2, kind: 'begin', pid: 9, no: 1, ...hook },
      { ...killed, role: 'server0' },
      { at: 0, kind: 'process', pid: 10, role: 'server1' },
    ]
    const late = (by: number, at: number) => attempted({ pid: 9 }, 2, [at, at + 5], { ...hook, by })
    expect(rules([...sent, ...late(10, 12 * second)])).toEqual(['recovery'])
    expect(rules([...sent, ...late(10, 9 * second)])).toEqual([])
  })
})

describe('a probe', () => {
  const probes = (delaysMs: readonly number[]) =>
    delaysMs.flatMap((ms, n) => {
      const at = n * 10 * second
      const one = { u: n + 1, id: 100 + n }
      const begins = at + 10 + ms * 1_000
      return [
        ...published(n + 1, at, [{ ...one, isProbe: true }]),
        ...attempted(worker, n, [begins, begins + 5], one),
      ]
    })

  test('begins within 2 s of its publish, but for one in a hundred', () => {
    expect(rules(probes([5, 1_900]))).toEqual([])
    expect(rules(probes([5, 2_100]))).toEqual(['late start'])
    expect(rules(probes([...Array(99).fill(5), 2_100]))).toEqual([])
  })

  test('may begin later while the machine stands still', () => {
    const stall = (from: number, to: number) => ({ at: to, kind: 'stall', pid: 9, from, to })
    expect(rules([...probes([2_500]), stall(second, 2 * second)])).toEqual([])
    expect(rules([...probes([2_500]), stall(5 * second, 6 * second)])).toEqual(['late start'])
  })
})
