import { describeError } from '../domain/describe-error.ts'

type Api = typeof import('@opentelemetry/api')

interface TracedEvent {
  readonly id: number
  readonly type: string | null
  readonly traceparent: string | null
}

interface TracedAttempt {
  readonly subscription: string
  /** From 1. */
  readonly number: number
}

type Handler<Event, Attempt> = (event: Event, attempt: Attempt) => unknown

/**
 * Wraps a handler so that each attempt runs in a span that continues the event's trace. Without OpenTelemetry's API the
 * handler is returned as it is; without an SDK behind the API no span is made.
 */
export async function traced<Event extends TracedEvent, Attempt extends TracedAttempt>(
  handler: Handler<Event, Attempt>,
  load: () => Promise<Api> = () => import('@opentelemetry/api'),
): Promise<Handler<Event, Attempt>> {
  const api = await load().catch(absent)
  if (api === undefined) return handler
  return (event, attempt) => {
    const tracer = findTracer(api)
    if (tracer === undefined) return handler(event, attempt)
    const parent = parentOf(api, event)
    const span = tracer.startSpan(
      `${event.type ?? 'event'} process`,
      { kind: api.SpanKind.CONSUMER, attributes: attributesOf(event, attempt) },
      parent,
    )
    return api.context.with(api.trace.setSpan(parent, span), async () => {
      try {
        return await handler(event, attempt)
      } catch (error) {
        const [message = ''] = describeError(error).split('\n', 1)
        span.recordException(error instanceof Error ? error : message)
        span.setStatus({ code: api.SpanStatusCode.ERROR, message })
        throw error
      } finally {
        span.end()
      }
    })
  }
}

/** The package may be missing. Any other reason why it cannot be loaded is an error. */
function absent(error: unknown): undefined {
  const { code } = error as { code?: string }
  if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND') throw error
}

/** Looked up for each attempt, since an SDK may be registered late; until then the API's proxy has no tracer. */
function findTracer({ trace, ProxyTracerProvider }: Api) {
  const provider = trace.getTracerProvider()
  return provider instanceof ProxyTracerProvider
    ? provider.getDelegateTracer('posthorn')
    : provider.getTracer('posthorn')
}

/** Parsed here, because the application's propagator may be set to other formats. */
function parentOf({ trace, ROOT_CONTEXT }: Api, { traceparent }: TracedEvent) {
  if (traceparent === null) return ROOT_CONTEXT
  const [, traceId = '', spanId = '', flags = ''] = traceparent.split('-')
  const traceFlags = Number.parseInt(flags, 16)
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true })
}

function attributesOf({ id }: TracedEvent, { subscription, number }: TracedAttempt) {
  return {
    'messaging.system': 'posthorn',
    'messaging.message.id': String(id),
    'posthorn.subscription': subscription,
    'posthorn.attempt': number,
  }
}
