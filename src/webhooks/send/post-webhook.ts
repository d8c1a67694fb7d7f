import { createHash } from 'node:crypto'
import type { StatusRules } from '../../domain/endpoint.ts'
import type { ExchangeRecord } from '../../domain/exchange-record.ts'
import { hideSecrets } from '../../domain/hidden-headers.ts'
import { type Subscription, webhookTimeoutMsDefault } from '../../domain/subscription.ts'
import { toReason, toStorable } from '../../domain/text.ts'
import type { Cancellation } from './deadline.ts'
import { hideInNames, hideTexts, secretTexts } from './echo.ts'
import type { Endpoint } from './endpoint-rows.ts'
import type { Sender, Sent } from './sender.ts'
import { type Decision, decide } from './webhook-outcome.ts'
import { buildRequest, type RequestParts, type WebhookRequest } from './webhook-request.ts'

/** Where the deliveries of a subscriber go. */
export interface Target {
  /** The subscriber's id. */
  readonly poolKey: string
  readonly url: string
  readonly rules: StatusRules
  readonly timeoutMs: number
  /** The subscriber's own headers whose values are never shown. */
  readonly hiddenHeaders: ReadonlySet<string>
}

/** With the rest of the endpoint. */
export function targetOf<Of extends Endpoint>(
  endpoint: Of,
  { id, timeoutMs }: Pick<Subscription, 'id' | 'timeoutMs'>,
): Of & Target {
  return {
    ...endpoint,
    poolKey: id,
    timeoutMs: timeoutMs ?? webhookTimeoutMsDefault,
    hiddenHeaders: new Set(endpoint.sealedHeaders.map(({ name }) => name)),
  }
}

export interface Posted extends Decision {
  readonly exchange: ExchangeRecord
}

/** Makes one attempt: signs and sends the request, and decides the outcome. Never throws. */
export function postWebhook(
  sender: Sender,
  target: Target,
  parts: RequestParts,
  signal: Cancellation,
): Promise<Posted> {
  const request = buildRequest(parts)
  const { headers, body } = request
  const { poolKey, url, timeoutMs, rules, hiddenHeaders } = target
  return sender.send({ headers, body, poolKey, url, timeoutMs, signal }).then((sent) => {
    const { outcome, endpoint } = decide(sent.result, rules)
    return { outcome, endpoint, exchange: recordOf(url, request, sent, hiddenHeaders) }
  })
}

function recordOf(
  url: string,
  { headers, body }: WebhookRequest,
  { result, response, timings }: Sent,
  hidden: ReadonlySet<string>,
): ExchangeRecord {
  const failed = result.kind === 'failed' ? result : null
  return {
    request: {
      // The query may hold secrets, which not everyone who may see deliveries may see.
      url: url.includes('?') ? url.replace(/\?.*$/s, '?…') : url,
      // Someone who may see deliveries must not be able to send the same request.
      headers: hideSecrets(headers, hidden),
      bodySha256: createHash('sha256').update(body).digest('hex'),
      bodyBytes: body.length,
    },
    statusCode: result.kind === 'answered' ? result.status : null,
    response: response && responseOf(response, secretTexts(url, headers, hidden)),
    errorClass: failed?.errorClass ?? null,
    error: failed && toReason(failed.message),
    timings: stepsOf(timings),
  }
}

/** A receiver may repeat our request: secrets are hidden in its response as in our request. */
function responseOf(
  { headers, body, bytes, ending }: NonNullable<Sent['response']>,
  secrets: readonly string[],
): ExchangeRecord['response'] {
  const shown = hideInNames(hideSecrets(headers), secrets)
  for (const name in shown) shown[name] = hideTexts(shown[name] as string, secrets)
  const text = bytes === 0 ? '' : toStorable(body.toString('utf8'), body.length)
  return { headers: shown, body: hideTexts(text, secrets, ending), bytes }
}

function stepsOf({ dnsMs, connectMs, tlsMs, firstByteMs, totalMs }: Sent['timings']): Record<string, number> {
  const steps: Record<string, number> = {}
  if (dnsMs !== undefined) steps.dns_ms = rounded(dnsMs)
  if (connectMs !== undefined) steps.connect_ms = rounded(connectMs)
  if (tlsMs !== undefined) steps.tls_ms = rounded(tlsMs)
  if (firstByteMs !== undefined) steps.first_byte_ms = rounded(firstByteMs)
  steps.total_ms = rounded(totalMs)
  return steps
}

function rounded(ms: number): number {
  return Math.round(ms * 100) / 100
}
