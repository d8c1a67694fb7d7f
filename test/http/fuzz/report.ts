import type { RawAnswer } from './connection.ts'
import type { Verdict } from './judge.ts'
import type { Sent } from './plan.ts'

const shownMax = 3

/** What was asked, how it was answered, and what was wrong with that. */
export class Report {
  readonly byStatus = new Map<string, number>()
  readonly byRoute = new Map<string, number>()
  readonly byVerdict = new Map<string, number>()
  /** By what is wrong and with which route: how often, and the first few in full. */
  readonly #wrong = new Map<string, { count: number; shown: string[] }>()
  requests = 0
  slowestMs = 0
  /** Payloads that were compared with what was sent. */
  compared = 0

  add(sent: Sent, answer: RawAnswer | undefined, complaints: readonly string[]): void {
    this.requests++
    this.slowestMs = Math.max(this.slowestMs, (answer?.ms ?? 0) - sent.waitMs)
    count(this.byStatus, String(answer?.status ?? 'none'))
    count(this.byRoute, `${sent.name} ${answer?.status ?? 'none'}`)
    for (const complaint of complaints)
      this.complain(`${sent.name}: ${complaint}`, () => showBoth(sent, answer))
  }

  judged(verdict: Verdict): void {
    count(this.byVerdict, verdict)
  }

  complain(what: string, show: () => string): void {
    const known = this.#wrong.get(what) ?? { count: 0, shown: [] }
    this.#wrong.set(what, known)
    known.count++
    if (known.shown.length < shownMax) known.shown.push(show())
  }

  get violations(): string[] {
    return [...this.#wrong].map(([what, { count, shown }]) => `${what} (${count} times)\n${shown.join('\n')}`)
  }

  /** For people. */
  lines(): string[] {
    return [
      `${this.requests} requests, the slowest took ${Math.round(this.slowestMs)} ms, ${this.compared} payloads compared`,
      `by status: ${listed(this.byStatus)}`,
      `by the document: ${listed(this.byVerdict)}`,
      ...byRoute(this.byRoute),
    ]
  }
}

/** A line for each: how many, and how they were answered. */
function byRoute(counts: ReadonlyMap<string, number>): string[] {
  const names = [...new Set([...counts.keys()].map((key) => key.slice(0, key.lastIndexOf(' '))))].sort()
  return names.map((name) => {
    const own = [...counts].filter(([key]) => key.slice(0, key.lastIndexOf(' ')) === name)
    const statuses = new Map(own.map(([key, times]) => [key.slice(name.length + 1), times]))
    return `${name} ${own.reduce((sum, [, times]) => sum + times, 0)}: ${listed(statuses)}`
  })
}

function count(counts: Map<string, number>, what: string): void {
  counts.set(what, (counts.get(what) ?? 0) + 1)
}

function listed(counts: ReadonlyMap<string, number>): string {
  return [...counts]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([what, times]) => `${what} ${times}`)
    .join(', ')
}

function showBoth(
  { method, target, headers, contentType, bytes }: Sent,
  answer: RawAnswer | undefined,
): string {
  const sent = [
    `${method} ${target.slice(0, 300)}`,
    JSON.stringify(headers),
    contentType ?? '',
    bytes?.toString().slice(0, 500) ?? '',
  ]
  const got = answer === undefined ? '' : `${answer.status} ${answer.body.toString().slice(0, 300)}`
  return `    ${sent.join(' ')}\n    -> ${got}`
}
