import type { Subscriber } from '../client/answers.ts'
import type { PosthornClient } from '../client/client.ts'
import type { Attempt, Handler } from '../consume/attempt.ts'
import { decideSettlement } from '../domain/settlement.ts'
import type { StoredEvent } from '../domain/stored-event.ts'
import { decide } from '../webhooks/send/webhook-outcome.ts'
import type { Out } from './command.ts'
import type { Exchange, Send } from './forwarder.ts'
import { temporaryRetry as retry } from './temporary-subscription.ts'

interface ShowOptions {
  readonly client: PosthornClient
  readonly subscription: Subscriber
  /** Undefined: events are only shown. */
  readonly send: Send | undefined
  readonly detail: 'lines' | 'everything'
  readonly out: Out
  readonly now: () => number
}

/** How long to wait before a receiver that could not be reached is tried again. */
const awayMs = 2_000
const payloadCharsMax = 200

/** Shows each delivery, and forwards it if `send` is given. The answer means what it means for a webhook. */
export function showDeliveries({ send, detail, out, now, ...rest }: ShowOptions): Handler {
  const show = (event: StoredEvent, attempt: Attempt, what: string) =>
    out(printable(`${timeOf(now())} ${event.type} ${event.id} attempt ${attempt.number} ${what}`))
  return async (event, attempt) => {
    if (send === undefined) {
      show(event, attempt, detail === 'everything' ? event.payloadText : shortened(event.payloadText))
      return
    }
    const deliveryId = await findDeliveryId(event, rest).catch((error: Error) => {
      show(event, attempt, `was not sent: ${error.message}`)
      throw error
    })
    const exchange = await send({ event, deliveryId, attempt: attempt.number, signal: attempt.signal })
    const { what, failure } = settle(exchange, event, attempt)
    show(event, attempt, `${described(exchange)}${what}`)
    if (detail === 'everything') for (const line of wholeOf(exchange)) out(printable(line))
    if (failure !== undefined) throw new Error(failure)
  }
}

/** The id is the same for every attempt, and the server shows the delivery under it. */
async function findDeliveryId(
  { id }: StoredEvent,
  { client, subscription }: Pick<ShowOptions, 'client' | 'subscription'>,
): Promise<string> {
  const { deliveries } = await client.event(id)
  const delivery = deliveries.find(({ subscriptionId }) => subscriptionId === subscription.id)
  if (delivery === undefined) throw new Error(`Event ${id} is not owed to ${subscription.name} any more`)
  return delivery.id
}

interface Settled {
  readonly what: string
  /** The attempt fails with this reason. */
  readonly failure?: string
}

function settle({ result }: Exchange, event: StoredEvent, attempt: Attempt): Settled {
  const { outcome, endpoint } = decide(result)
  if (outcome.kind === 'failed' && outcome.uncounted) {
    attempt.snooze(awayMs)
    const gone = endpoint === 'gone' ? ', a webhook subscription would be paused' : ''
    return { what: `${gone}, again in ${awayMs / 1000} s` }
  }
  if (outcome.kind !== 'failed') return { what: '' }
  const { failures } = attempt
  // The server decides by the same rule, so the line can be printed before.
  const next = decideSettlement({ failures, retry, maxRetries: event.maxRetries }, outcome, 0)
  if (next.kind === 'retry') {
    return { what: `, again in ${Math.round(next.afterMs / 1000)} s`, failure: outcome.reason }
  }
  attempt.bury(outcome.reason)
  return { what: ', given up' }
}

function described({ result, ms }: Exchange): string {
  const answer = result.kind === 'answered' ? String(result.status) : result.message
  return `→ ${answer} in ${ms} ms`
}

function wholeOf({ request, response }: Exchange): string[] {
  const sent = [...Object.entries(request.headers).map(toHeaderLine), '', ...linesOf(request.body.toString())]
  const got =
    response === null ? [] : [...[...response.headers].map(toHeaderLine), '', ...linesOf(response.text)]
  return [...sent.map((line) => `  > ${line}`), ...got.map((line) => `  < ${line}`)]
}

function toHeaderLine([name, value]: readonly [string, string]): string {
  return `${name}: ${value}`
}

function linesOf(text: string): string[] {
  return text === '' ? [] : text.trimEnd().split('\n')
}

function timeOf(ms: number): string {
  return new Date(ms).toTimeString().slice(0, 8)
}

function shortened(text: string): string {
  return text.length <= payloadCharsMax ? text : `${text.slice(0, payloadCharsMax)}…`
}

/** Control characters of an event must not steer the terminal. */
function printable(line: string): string {
  return line.replace(/\p{Cc}/gu, ' ')
}
