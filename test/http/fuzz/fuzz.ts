import fc from 'fast-check'
import type { OpenApiDocument } from '../../../src/http/docs/document.ts'
import type { Route } from '../../../src/http/route.ts'
import { complaintsOf, parseJson, payloadComplaints, routeComplaints } from './checks.ts'
import { Connection, type RawAnswer } from './connection.ts'
import { Judge } from './judge.ts'
import { Memory } from './memory.ts'
import { type Aim, aimsOf, emptyPlan, type Plan, type Sent, toBytes, toSent } from './plan.ts'
import { anyPlan } from './plans.ts'
import { Report } from './report.ts'
import { isRecord, type Tree, write } from './tree.ts'
import { Values } from './values.ts'

/** A server that is fuzzed. */
export interface Target {
  readonly port: number
  /** The headers that every request has unless it says otherwise. */
  readonly headers: Plan['headers']
  /** Lets time pass there. */
  advance(ms: number): Promise<void>
}

export interface FuzzOptions {
  readonly document: OpenApiDocument
  readonly routes: readonly Route[]
  readonly targets: readonly Target[]
  readonly requests: number
  readonly seed: number
}

const sessionsPerTarget = 3
const blockSize = 200
/** Every so many requests some time passes, so that leases end and retries come due. */
const requestsPerStep = 20
/** How often a request is repeated while the database cannot be reached in time. */
const unavailableMax = 20
const unavailable = /database_unavailable/
const isUnavailable = (answer: RawAnswer | undefined) =>
  answer?.status === 503 && unavailable.test(answer.body.toString())

/** Sends random requests and says what was wrong with the answers. The same seed makes the same requests. */
export async function fuzz({ document, routes, targets, requests, seed }: FuzzOptions): Promise<Report> {
  const aims = aimsOf(document)
  const plans = anyPlan(new Values(document), aims)
  const report = new Report()
  const judge = new Judge(document)
  const sessions = targets.flatMap((target, place) => {
    const memory = new Memory()
    const share = Math.ceil(requests / targets.length / sessionsPerTarget)
    return Array.from({ length: sessionsPerTarget }, (_, nth) => {
      const session = new Session({ target, memory, aims, routes, judge, report })
      const own = seed + (place * sessionsPerTarget + nth) * 1_000_003
      return session.run(plans, { requests: share, seed: own, isTimekeeper: nth === 0 })
    })
  })
  await Promise.all(sessions)
  return report
}

interface SessionParts {
  readonly target: Target
  readonly memory: Memory
  readonly aims: readonly Aim[]
  readonly routes: readonly Route[]
  readonly judge: Judge
  readonly report: Report
}

interface Work {
  readonly requests: number
  readonly seed: number
  /** It lets time pass for all. */
  readonly isTimekeeper: boolean
}

/** One client: it asks, waits for the answer, and asks again. */
class Session {
  readonly #parts: SessionParts
  readonly #connection: Connection

  constructor(parts: SessionParts) {
    this.#parts = parts
    this.#connection = new Connection(parts.target.port)
  }

  async run(plans: fc.Arbitrary<Plan>, { requests, seed, isTimekeeper }: Work): Promise<void> {
    let sent = 0
    for (let block = 0; sent < requests; block++) {
      for (const plan of fc.sample(plans, {
        seed: seed + block,
        numRuns: Math.min(blockSize, requests - sent),
      })) {
        if (sent >= requests) break
        const stored = await this.#ask(plan)
        sent += stored === undefined ? 1 : 2
        if (stored !== undefined) await this.#ask(readBack(stored))
        if (isTimekeeper && sent % requestsPerStep === 0)
          await this.#parts.target.advance(1 + ((seed + sent) % 400_000))
      }
    }
    this.#connection.close()
  }

  /** The id of the event that it stored, if it did. */
  async #ask(plan: Plan): Promise<number | undefined> {
    const { target, memory, report } = this.#parts
    const sent = toSent(plan, (slot) => memory.look(slot))
    const isHead = sent.method === 'HEAD'
    const answer = await this.#patient(() => this.#connection.send(toBytes(sent, target.headers), { isHead }))
    if (answer === undefined) {
      report.add(sent, undefined, ['no answer'])
      return undefined
    }
    const text = answer.body.toString()
    const json = answer.status < 300 ? parseJson(text) : undefined
    const stored = answer.status < 300 && json !== undefined ? this.#learn(sent, json) : undefined
    report.add(sent, answer, [
      ...complaintsOf(answer, sent.waitMs),
      ...this.#routeComplaints(sent, answer),
      ...this.#payloadComplaints(text, json),
    ])
    return stored
  }

  /** A busy machine's database may take longer than the server waits for it: the request is repeated. */
  async #patient(send: () => Promise<RawAnswer | undefined>): Promise<RawAnswer | undefined> {
    let answer = await send()
    for (let again = 0; again < unavailableMax && isUnavailable(answer); again++) answer = await send()
    return answer
  }

  #routeComplaints(sent: Sent, answer: RawAnswer): string[] {
    const { aims, routes, judge, report } = this.#parts
    const aim = aims.find(({ name }) => name === sent.name)
    const route = routes.find(({ name }) => name === sent.name)
    if (aim === undefined || route === undefined || sent.method !== aim.method) return []
    // Without it the path is another one.
    if (Object.values(sent.params).includes('')) return []
    const verdict = judge.judge(aim, sent)
    report.judged(verdict)
    return routeComplaints(aim, route, sent, answer, verdict)
  }

  #learn({ name, method, query, body }: Sent, json: unknown): number | undefined {
    const { memory } = this.#parts
    const isPublish = name.startsWith('publish') && method === 'POST'
    const worker = String(query.find(([one]) => one === 'worker_id')?.[1] ?? '')
    memory.learn(json, { worker, isPublish })
    if (!isPublish || body === undefined || Buffer.isBuffer(body)) return undefined
    const { id, events } = json as { id?: unknown; events?: readonly { id: number }[] }
    const given = (
      Array.isArray(body) ? body : isRecord(body) && Array.isArray(body.events) ? body.events : [body]
    ) as readonly Tree[]
    const ids = typeof id === 'number' ? [id] : (events ?? []).map((event) => event.id)
    ids.forEach((eventId, place) => {
      const payload = payloadIn(given[place])
      if (payload !== undefined) memory.payloads.set(eventId, payload)
    })
    return ids.find((eventId) => memory.payloads.has(eventId))
  }

  #payloadComplaints(text: string, json: unknown): string[] {
    const { id, purged_at: purgedAt } = (json ?? {}) as { id?: unknown; purged_at?: unknown }
    const first = typeof id === 'number' ? this.#parts.memory.payloads.get(id) : undefined
    const sent = purgedAt === undefined ? first : 'null'
    if (sent === undefined || !text.includes(',"payload":')) return []
    this.#parts.report.compared++
    return payloadComplaints(text, sent)
  }
}

function payloadIn(event: Tree | undefined): string | undefined {
  if (!isRecord(event)) return undefined
  const payload = event.payload ?? event.data_base64 ?? event.data
  return payload === undefined ? undefined : write(payload)
}

function readBack(id: number): Plan {
  return {
    ...emptyPlan,
    name: 'getEvent',
    method: 'GET',
    path: '/events/{id}',
    params: { id },
    isPlain: true,
  }
}
