import { describe, expect, test } from 'vitest'
import { healthRoutes } from '../../src/http/routes/health-routes.ts'
import type { Hub } from '../../src/hub.ts'
import { alertKinds } from '../../src/observe/alerts.ts'
import { createMetrics, metricTable } from '../../src/observe/metrics.ts'
import { observeRequests } from '../../src/observe/request-metrics.ts'
import type { Posthorn } from '../../src/posthorn.ts'
import { useHubs } from '../support/hub.ts'
import { startProxy } from '../support/proxy.ts'
import { leaseRuns, settleRuns } from '../support/pulling.ts'
import { createSignal, eventually } from '../support/signal.ts'
import { parseExposition } from './exposition.ts'

const hubs = useHubs('metrics')

describe('a scrape', () => {
  test('tells what was published, leased, completed, failed and buried', async () => {
    const { hub } = await hubs.open()
    await hub.subscribe('order.*', { name: 'billing' })
    await hub.publishMany([1, 2, 3, 4, 5].map((payload) => ({ type: 'order.created', payload })))
    await hub.publish({ type: 'nobody', payload: null })
    await settleRuns(hub, await leaseRuns(hub, 'billing'), { kind: 'succeeded' })
    await settleRuns(hub, await leaseRuns(hub, 'billing'), { kind: 'failed', reason: 'no' })
    await settleRuns(hub, await leaseRuns(hub, 'billing'), { kind: 'buried', reason: 'no' })
    await leaseRuns(hub, 'billing')

    expect(Object.fromEntries(await scrape(hub))).toMatchObject({
      posthorn_events_published_total: 6,
      posthorn_events_unrouted_total: 1,
      'posthorn_attempts_total{settlement="complete",subscription="billing"}': 1,
      'posthorn_attempts_total{settlement="retry",subscription="billing"}': 1,
      'posthorn_attempts_total{settlement="bury",subscription="billing"}': 1,
      'posthorn_queue_depth{subscription="billing"}': 2,
      'posthorn_queue_depth{subscription="work"}': 0,
      'posthorn_queue_delayed{subscription="billing"}': 1,
      'posthorn_queue_retries{subscription="billing"}': 1,
      'posthorn_queue_leased{subscription="billing"}': 1,
      'posthorn_workers{state="alive"}': 1,
      'posthorn_workers{state="stale"}': 0,
      posthorn_attempts_overdue: 0,
      posthorn_dead_letters: 1,
      posthorn_database_up: 1,
      posthorn_publish_duration_seconds_count: 2,
      posthorn_pickup_latency_seconds_count: 4,
      'posthorn_attempt_duration_seconds_count{subscription="billing"}': 3,
      // the same figures under their other names
      eventhub_events_received_total: 6,
      'eventhub_messages_delivered_total{status="success"}': 1,
      'eventhub_messages_delivered_total{status="failure"}': 2,
      eventhub_delivery_latency_seconds_count: 3,
      'eventhub_delivery_latency_seconds_bucket{le="0.025"}': 0,
      'eventhub_delivery_latency_seconds_bucket{le="0.1"}': 3,
      'eventhub_delivery_latency_seconds_bucket{le="+Inf"}': 3,
      eventhub_pending_messages: 2,
      eventhub_dlq_size: 1,
    })
  })

  test('tells what handlers do, and sums it up over all subscriptions under the eventhub_ names', async () => {
    const { hub, drain } = await hubs.open()
    hub.on('t', { name: 'good' }, () => undefined)
    hub.on('t', { name: 'bad', retry: { failuresMax: 1 } }, () => {
      throw new Error('no')
    })
    await hub.start()
    for (let n = 0; n < 3; n++) await hub.publish({ type: 't', payload: n })
    await drain()
    await eventually('all are told', async () => sumOf(await scrape(hub), 'posthorn_attempts_total') === 6)
    const figures = await scrape(hub)
    expect(figures.get('eventhub_messages_delivered_total{status="success"}')).toBe(3)
    expect(figures.get('eventhub_messages_delivered_total{status="failure"}')).toBe(3)
    expect(figures.get('eventhub_delivery_latency_seconds_count')).toBe(6)
    expect(figures.get('posthorn_pickup_latency_seconds_count')).toBe(6)
  })

  test('tells workers that went silent, and attempts that do not end', async () => {
    const { hub, clock } = await hubs.open({ overdueAfterMs: 60_000 })
    await hub.subscribe('t', { name: 'q', leaseMs: 3_600_000 })
    await hub.publish({ type: 't', payload: 1 })
    await leaseRuns(hub, 'q')
    await clock.advance(61_000)
    expect(Object.fromEntries(await scrape(hub))).toMatchObject({
      'posthorn_workers{state="alive"}': 0,
      'posthorn_workers{state="stale"}': 1,
      posthorn_attempts_overdue: 1,
      'posthorn_alerts_total{alert="posthorn.attempt.overdue"}': 1,
    })
  })

  test('counts what was polled and finalized', async () => {
    const { hub } = await hubs.open()
    for (const title of ['a', 'b']) await hub.publish({ title, tags: 'x', payload: null })
    const [first, second] = [await hub.poll(), await hub.poll()]
    await hub.finalize(first?.id as number)
    await hub.finalize(first?.id as number)
    await hub.finalize(second?.id as number, [new Error('no')])
    const figures = await scrape(hub)
    expect(figures.get('posthorn_attempts_total{settlement="complete",subscription="work"}')).toBe(1)
    expect(figures.get('posthorn_attempts_total{settlement="bury",subscription="work"}')).toBe(1)
    expect(figures.get('posthorn_pickup_latency_seconds_count')).toBe(2)
  })

  test('reads the queues at most once for all who ask within ten seconds', async () => {
    const { hub } = await hubs.open()
    await hub.subscribe('t', { name: 'q' })
    const [first] = await Promise.all([scrape(hub), scrape(hub), scrape(hub)])
    await hub.publish({ type: 't', payload: 1 })
    const second = await scrape(hub)
    expect(first.get('posthorn_queue_depth{subscription="q"}')).toBe(0)
    expect(second.get('posthorn_queue_depth{subscription="q"}')).toBe(0)
    expect(second.get('posthorn_events_published_total')).toBe(1)
  })

  test('gives 0 for every counter and histogram without labels before anything has happened', async () => {
    const { hub } = await hubs.open()
    const figures = await scrape(hub)
    for (const { name, kind, labels } of Object.values(metricTable)) {
      if (kind !== 'counter' || labels.length > 0) continue
      expect([name, figures.get(name)]).toEqual([name, 0])
    }
    expect(figures.get('eventhub_messages_delivered_total{status="success"}')).toBe(0)
    expect(figures.get('posthorn_publish_duration_seconds_count')).toBe(0)
  })

  test('gives 0 for every kind of alert before the first, so that a rule sees the first as well', async () => {
    const { hub } = await hubs.open()
    const figures = await scrape(hub)
    for (const alert of alertKinds) expect(figures.get(`posthorn_alerts_total{alert="${alert}"}`)).toBe(0)
  })
})

describe('the time from publishing to leasing', () => {
  test('is measured on the clock of the database, and only for first attempts', async () => {
    const { hub, clock } = await hubs.open()
    await hub.subscribe('t', { name: 'q', retry: { kind: 'fixed', delayMs: 1_000, failuresMax: 3 } })
    await hub.publish({ type: 't', payload: 1 })
    await clock.advance(200_000)
    await settleRuns(hub, await leaseRuns(hub, 'q', { leaseMs: 5_000 }), { kind: 'failed', reason: 'no' })
    await clock.advance(500_000)
    expect(await leaseRuns(hub, 'q')).toHaveLength(1)
    const figures = await scrape(hub)
    expect(figures.get('posthorn_pickup_latency_seconds_count')).toBe(1)
    expect(figures.get('posthorn_pickup_latency_seconds_sum')).toBeGreaterThanOrEqual(200)
    expect(figures.get('posthorn_pickup_latency_seconds_sum')).toBeLessThan(300)
  })

  test('counts from when a delayed event was due', async () => {
    const { hub, clock } = await hubs.open()
    await hub.subscribe('t', { name: 'q' })
    const { createdAt } = await hub.publish({ type: 't', payload: 0 })
    await settleRuns(hub, await leaseRuns(hub, 'q'), { kind: 'succeeded' })
    await hub.publish({ type: 't', payload: 1, runAt: new Date(createdAt.getTime() + 1_000_000) })
    await clock.advance(1_200_000)
    expect(await leaseRuns(hub, 'q')).toHaveLength(1)
    const sum = (await scrape(hub)).get('posthorn_pickup_latency_seconds_sum')
    expect(sum).toBeGreaterThanOrEqual(200)
    expect(sum).toBeLessThan(300)
  })
})

describe('the process', () => {
  test('tells how many attempts and long polls are under way', async () => {
    const { hub } = await hubs.open()
    const [begun, go] = [createSignal(), createSignal()]
    hub.on('t', { name: 'slow' }, async () => {
      begun.give()
      await go.given
    })
    await hub.start()
    await hub.publish({ type: 't', payload: 1 })
    await begun.given
    const gone = new AbortController()
    const polling = leaseRuns(hub, 'work', { waitMs: 60_000, signal: gone.signal })
    await eventually('it waits', () => hub.pull.waiting === 1)
    const figures = await scrape(hub)
    expect(figures.get('posthorn_attempts_under_way')).toBe(1)
    expect(figures.get('posthorn_long_polls_waiting')).toBe(1)
    gone.abort()
    go.give()
    expect(await polling).toEqual([])
    expect((await scrape(hub)).get('posthorn_long_polls_waiting')).toBe(0)
  })

  test('tells how its connections are used and how long it waited for them', async () => {
    const { hub } = await hubs.open({ poolMax: 2 })
    const listing = [1, 2, 3, 4, 5].map(() => hub.subscriptions())
    await new Promise<void>((resolve) => process.nextTick(resolve))
    const busy = (await hub.metrics.poolConnections.get()).values
    expect(busy.map(({ labels, value }) => [labels.state, value])).toEqual([
      ['idle', 0],
      ['used', 2],
      ['waiting', 3],
    ])
    await Promise.all(listing)
    // The first scrape needs a connection itself.
    await scrape(hub)
    const before = (await scrape(hub)).get('posthorn_pool_wait_seconds_count') as number
    await hub.subscriptions()
    const after = await scrape(hub)
    expect(after.get('posthorn_pool_wait_seconds_count')).toBe(before + 1)
    expect(after.get('posthorn_pool_connections{state="idle"}')).toBe(2)
    expect(after.get('posthorn_pool_connections{state="waiting"}')).toBe(0)
  })

  test('counts requests by route, and those without one together', async () => {
    const metrics = createMetrics()
    const tell = observeRequests(metrics)
    tell({ method: 'GET', route: '/events/{id}', status: 200, ms: 2 })
    tell({ method: 'GET', route: '/events/{id}', status: 200, ms: 4 })
    tell({ method: 'GET', route: '/events/{id}', status: 404, ms: 1 })
    tell({ method: 'POST', route: null, status: 404, ms: 1 })
    const figures = parseExposition(await metrics.registry.metrics())
    expect(figures.get('posthorn_http_requests_total{method="GET",route="/events/{id}",status="200"}')).toBe(
      2,
    )
    expect(figures.get('posthorn_http_requests_total{method="GET",route="/events/{id}",status="404"}')).toBe(
      1,
    )
    expect(figures.get('posthorn_http_requests_total{method="POST",route="none",status="404"}')).toBe(1)
    expect(figures.get('posthorn_http_request_duration_seconds_count{route="/events/{id}"}')).toBe(3)
  })

  test('tells a thousand subscriptions apart and no more', () => {
    const { label } = createMetrics()
    const names = Array.from({ length: 1_001 }, (_, n) => `n${n}`)
    expect(new Set(names.map(label)).size).toBe(1_001)
    expect([label('n0'), label('n999'), label('n1000'), label('n1001')]).toEqual([
      'n0',
      'n999',
      '(other)',
      '(other)',
    ])
  })
})

describe('without the database', () => {
  test('a scrape answers with what needs none, and with the rest when it is back', async () => {
    const proxy = await startProxy(hubs.connection)
    const { hub } = await hubs.open({ database: proxy.connection })
    await hub.publish({ type: 't', payload: 1 })
    proxy.blackhole()
    const away = await scrape(hub)
    expect(away.get('posthorn_database_up')).toBe(0)
    expect(away.get('posthorn_events_published_total')).toBe(1)
    const known = [...away.keys()].filter((series) =>
      /^(posthorn_queue|posthorn_dead|posthorn_oldest|eventhub_(pending|dlq))/.test(series),
    )
    expect(known).toEqual([])
    proxy.heal()
    await eventually('it is up again', async () => (await scrape(hub)).get('posthorn_database_up') === 1)
    expect((await scrape(hub)).get('eventhub_dlq_size')).toBe(0)
    await hub.stop()
    expect((await scrape(hub)).size).toBeGreaterThan(0)
    await proxy.close()
  })
})

test('the route answers with Prometheus text to those who may read', async () => {
  const hub = { scrape: async () => 'up 1\n' } as Hub
  const routes = healthRoutes(hub, { isDraining: () => false, version: '' })
  const route = routes.find(({ path }) => path === '/metrics')
  expect(route).toMatchObject({ method: 'GET', path: '/metrics', scope: 'read' })
  expect(await route?.handle({} as never)).toEqual({
    status: 200,
    text: 'up 1\n',
    contentType: 'text/plain; version=0.0.4; charset=utf-8',
  })
})

async function scrape(hub: Posthorn): Promise<Map<string, number>> {
  return parseExposition(await hub.scrape())
}

function sumOf(figures: Map<string, number>, name: string): number {
  return [...figures].reduce((sum, [series, value]) => (series.startsWith(name) ? sum + value : sum), 0)
}
