import { AsyncLocalStorage } from 'node:async_hooks'
import {
  type Context,
  type ContextManager,
  context,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  type SpanOptions,
  type SpanStatus,
  SpanStatusCode,
  type Tracer,
  type TracerProvider,
  trace,
} from '@opentelemetry/api'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { traced } from '../../src/observe/tracing.ts'
import { useHubs } from '../support/hub.ts'

const hubs = useHubs('tracing')
const traceId = '0af7651916cd43dd8448eb211c80319c'
const parentId = 'b7ad6b7169203331'
const traceparent = `00-${traceId}-${parentId}-01`

interface Recorded {
  readonly name: string
  readonly options: SpanOptions
  readonly parent: SpanContext | undefined
  readonly exceptions: unknown[]
  status: SpanStatus | undefined
  ended: number
}

/** As much of an SDK as it takes to see which spans are made. */
function createProvider(spans: Recorded[]): TracerProvider {
  const tracer = {
    startSpan(name: string, options: SpanOptions = {}, parentContext: Context = ROOT_CONTEXT) {
      const parent = trace.getSpanContext(parentContext)
      const recorded: Recorded = { name, options, parent, exceptions: [], status: undefined, ended: 0 }
      spans.push(recorded)
      const spanId = String(spans.length).padStart(16, '0')
      const span: Partial<Span> = {
        spanContext: () => ({ traceId: parent?.traceId ?? 'f'.repeat(32), spanId, traceFlags: 1 }),
        recordException: (exception) => void recorded.exceptions.push(exception),
        setStatus(status) {
          recorded.status = status
          return span as Span
        },
        end: () => void recorded.ended++,
      }
      return span as Span
    },
  } as Tracer
  return { getTracer: () => tracer }
}

function createContextManager(): ContextManager {
  const storage = new AsyncLocalStorage<Context>()
  const manager: ContextManager = {
    active: () => storage.getStore() ?? ROOT_CONTEXT,
    with: (active, work, self, ...args) => storage.run(active, () => work.apply(self, args)),
    bind: (_, target) => target,
    enable: () => manager,
    disable: () => manager,
  }
  return manager
}

describe('with an SDK', () => {
  const spans: Recorded[] = []
  beforeEach(() => {
    spans.length = 0
    trace.setGlobalTracerProvider(createProvider(spans))
    context.setGlobalContextManager(createContextManager())
  })
  afterEach(() => {
    trace.disable()
    context.disable()
  })

  test('an attempt runs in a span that continues the trace of its event', async () => {
    const { hub, drain } = await hubs.open()
    const active: (SpanContext | undefined)[] = []
    hub.on('order.created', { name: 'receipt' }, async () => {
      await new Promise(setImmediate)
      active.push(trace.getActiveSpan()?.spanContext())
      expect(spans[0]?.ended).toBe(0)
    })
    await hub.start()
    const { id } = await hub.publish({ type: 'order.created', payload: 1, traceparent })
    await drain()
    expect(spans).toEqual([
      {
        name: 'order.created process',
        options: {
          kind: SpanKind.CONSUMER,
          attributes: {
            'messaging.system': 'posthorn',
            'messaging.message.id': String(id),
            'posthorn.subscription': 'receipt',
            'posthorn.attempt': 1,
          },
        },
        parent: { traceId, spanId: parentId, traceFlags: 1, isRemote: true },
        exceptions: [],
        status: undefined,
        ended: 1,
      },
    ])
    expect(active).toMatchObject([{ traceId, spanId: '0000000000000001' }])
  })

  test('each attempt has its own, and one that throws says so', async () => {
    const { hub, clock, drain } = await hubs.open()
    const wrong = new Error('wrong')
    hub.on('t', { name: 'n', retry: { baseMs: 1_000, jitter: 0 } }, (_, attempt) => {
      if (attempt.number === 1) throw wrong
      if (attempt.number === 2) throw Object.create(null)
    })
    await hub.start()
    const { id } = await hub.publish({ type: 't', payload: 1 })
    await drain()
    await clock.advance(1_000)
    await drain()
    await clock.advance(2_000)
    await drain()
    expect((await hub.event(id))?.progress).toMatchObject({ status: 'COMPLETED', retryCount: 2 })
    expect(spans.map(({ options }) => options.attributes?.['posthorn.attempt'])).toEqual([1, 2, 3])
    expect(spans.map(({ ended, parent }) => [ended, parent])).toEqual(
      [1, 1, 1].map((one) => [one, undefined]),
    )
    expect(spans.map(({ exceptions }) => exceptions)).toEqual([[wrong], ['{}'], []])
    expect(spans.map(({ status }) => status)).toEqual([
      { code: SpanStatusCode.ERROR, message: 'Error: wrong' },
      { code: SpanStatusCode.ERROR, message: '{}' },
      undefined,
    ])
  })

  test('a span does not hang on whatever else is traced in the process', async () => {
    const { hub, drain } = await hubs.open()
    hub.on('t', { name: 'n' }, () => undefined)
    await hub.start()
    const around = trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId: parentId, traceFlags: 1 })
    await context.with(around, () => hub.publish({ type: 't', payload: 1 }))
    await drain()
    expect(spans.map(({ parent }) => parent)).toEqual([undefined])
  })
})

describe('without', () => {
  const event = { id: 1, type: 't', traceparent }
  const attempt = { subscription: 'n', number: 1 }

  test('without the package the handler is what it was', async () => {
    const handler = () => undefined
    const missing = Object.assign(new Error('Cannot find package'), { code: 'ERR_MODULE_NOT_FOUND' })
    expect(await traced(handler, () => Promise.reject(missing))).toBe(handler)
  })

  test('a package that cannot be loaded is not taken for a missing one', async () => {
    const broken = traced(
      () => undefined,
      () => Promise.reject(new SyntaxError('broken')),
    )
    await expect(broken).rejects.toThrow('broken')
  })

  test('without an SDK nothing is added to a call', async () => {
    const handler = await traced(() => 'plain')
    expect(handler(event, attempt)).toBe('plain')
  })

  test('an SDK that comes later is found', async () => {
    const handler = await traced(() => 'plain')
    const spans: Recorded[] = []
    trace.setGlobalTracerProvider(createProvider(spans))
    await handler(event, attempt)
    trace.disable()
    expect(handler(event, attempt)).toBe('plain')
    expect(spans).toHaveLength(1)
  })
})
