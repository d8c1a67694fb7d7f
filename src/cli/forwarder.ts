import type { Format } from '../domain/endpoint.ts'
import type { StoredEvent } from '../domain/stored-event.ts'
import { toSendError } from '../webhooks/send/send-failure.ts'
import type { Result } from '../webhooks/send/webhook-outcome.ts'
import { buildRequest, type WebhookRequest } from '../webhooks/send/webhook-request.ts'
import { readManifest } from './command.ts'

interface ForwarderOptions {
  readonly url: string
  readonly format: Format
  readonly secret: Buffer
  /** In milliseconds since 1970. Receivers refuse old signatures. */
  readonly now: () => number
}

interface Forwarding {
  readonly event: StoredEvent
  readonly deliveryId: string
  readonly attempt: number
  readonly signal: AbortSignal
}

/** One request and its result. */
export interface Exchange {
  readonly request: WebhookRequest
  readonly result: Result
  readonly response: { readonly headers: Headers; readonly text: string } | null
  readonly ms: number
}

export type Send = (forwarding: Forwarding) => Promise<Exchange>

const timeoutMs = 10_000
const responseBytesMax = 16_384

/** Sends deliveries as a subscriber would get them. Any address will do: the developer's own machine sends them. */
export function createForwarder({ url, format, secret, now }: ForwarderOptions): Send {
  const userAgent = `posthorn/${readManifest().version}`
  return async ({ event, deliveryId, attempt, signal }) => {
    const request = buildRequest({
      event,
      deliveryId,
      attempt,
      format,
      userAgent,
      headers: {},
      lane: null,
      replay: null,
      secrets: [secret],
      timestamp: Math.floor(now() / 1000),
    })
    const deadline = AbortSignal.timeout(timeoutMs)
    const begun = performance.now()
    const took = () => Math.round(performance.now() - begun)
    try {
      const answer = await fetch(url, {
        method: 'POST',
        headers: request.headers,
        body: new Uint8Array(request.body),
        redirect: 'manual',
        signal: AbortSignal.any([deadline, signal]),
      })
      const ms = took()
      const { status, headers } = answer
      const response = { headers, text: await readSome(answer) }
      return { request, result: { kind: 'answered', status, retryAfterMs: null }, response, ms }
    } catch (error) {
      signal.throwIfAborted()
      return { request, result: failureOf(error, deadline), response: null, ms: took() }
    }
  }
}

function failureOf(error: unknown, deadline: AbortSignal): Result {
  if (deadline.aborted) {
    return { kind: 'failed', errorClass: 'timeout', message: `no answer within ${timeoutMs / 1000} s` }
  }
  // The error of fetch says that it failed; its cause says why.
  const { errorClass, message } = toSendError((error as Error).cause ?? error)
  return { kind: 'failed', errorClass, message }
}

/** The beginning of a response's body, to show. The status alone has decided. */
async function readSome(answer: Response): Promise<string> {
  const parts: Uint8Array[] = []
  let bytes = 0
  try {
    for await (const part of answer.body ?? []) {
      parts.push(part)
      bytes += part.length
      if (bytes >= responseBytesMax) break
    }
  } catch (error) {
    return `(${error instanceof Error ? error.message : String(error)})`
  }
  return Buffer.concat(parts).subarray(0, responseBytesMax).toString('utf8')
}
