import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { faultsOf } from './promql.ts'

interface Rule {
  readonly alert: string
  readonly expr: string
  readonly for: string
  readonly labels: { readonly severity: string }
  readonly annotations: { readonly summary: string; readonly description: string }
}

interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  readonly fieldConfig: { readonly defaults: { readonly unit: string } }
  readonly targets: readonly { readonly refId: string; readonly expr: string }[]
}

interface Dashboard {
  readonly uid: string
  readonly panels: readonly Panel[]
  readonly templating: { readonly list: readonly { readonly name: string; readonly query: unknown }[] }
}

const read = (path: string) => readFileSync(new URL(`../../deploy/${path}`, import.meta.url), 'utf8')
const rules = (
  parse(read('prometheus/posthorn-alerts.yml')) as { groups: { rules: Rule[] }[] }
).groups.flatMap((group) => group.rules)
const dashboard = JSON.parse(read('grafana/posthorn-dashboard.json')) as Dashboard
const panels = dashboard.panels.filter(({ type }) => type !== 'row')

describe('an expression is measured by the table of metrics', () => {
  test.each([
    ['max(posthorn_queue_depht) > 1', 'posthorn_queue_depht: no such metric'],
    ['max by (subscriber) (posthorn_queue_depth)', 'posthorn_queue_depth: no label subscriber'],
    ['max(posthorn_queue_depth{subscriber="a"})', 'posthorn_queue_depth: no label subscriber'],
    ['max by (le) (posthorn_queue_depth)', 'posthorn_queue_depth: no label le'],
    ['sum(rate(eventhub_delivery_latency_seconds[5m]))', 'eventhub_delivery_latency_seconds: no such metric'],
    ['sum(rate(posthorn_attempts_total_sum[5m]))', 'posthorn_attempts_total_sum: no such metric'],
    [
      'sum(increase(posthorn_alerts_total{alert="posthorn.lane.blcked"}[5m]))',
      'no alert posthorn.lane.blcked',
    ],
    ['sum(posthorn_events_published_total)', 'rate and increase are for counters'],
    ['rate(posthorn_dead_letters[5m])', 'rate and increase are for counters'],
    ['label_values(posthorn_queue_depth, subscriber)', 'posthorn_queue_depth: no label subscriber'],
    ['1 > 2', 'reads no metric'],
  ])('%s is refused', (expr, fault) => {
    expect(faultsOf(expr)).toEqual([expect.stringContaining(fault)])
  })

  test.each([
    'max by (job, subscription) (posthorn_queue_depth{subscription=~"a,}b"}) > 1000',
    'histogram_quantile(0.99, sum by (job, le) (rate(eventhub_delivery_latency_seconds_bucket[5m]))) > 5',
    'sum(rate(posthorn_http_requests_total{status=~"5.."}[5m])) / sum(rate(posthorn_http_requests_total[5m] offset 1h))',
    'rate(posthorn_publish_duration_seconds_sum[5m]) / rate(posthorn_publish_duration_seconds_count[5m])',
    'label_values(posthorn_queue_depth{job=~"$job"}, subscription)',
  ])('%s is fine', (expr) => {
    expect(faultsOf(expr)).toEqual([])
  })
})

describe('the alert rules', () => {
  test.each(rules.map((rule) => [rule.alert, rule] as const))(
    '%s can be raised and is told in words',
    (_, rule) => {
      expect(faultsOf(rule.expr)).toEqual([])
      expect(rule.for).toMatch(/^[1-9]\d*m$/)
      expect(rule.labels.severity).toMatch(/^(warning|critical)$/)
      expect(rule.annotations.summary).toMatch(/^\S.{10,}/)
      expect(rule.annotations.description).toMatch(/^\S.{30,}\.$/)
    },
  )

  test('have names that differ', () => {
    expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length)
  })

  test.each([
    ['pending', /^max by \(job\) \(eventhub_pending_messages\) > 1000$/],
    ['dead letters', /^max by \(job\) \(eventhub_dlq_size\) > 100$/],
    ['slow', /^histogram_quantile\(0\.99, .*eventhub_delivery_latency_seconds_bucket.* > 5$/],
    ['stale', /posthorn_leases_expired_total\[15m\]\)\) > 0$/],
  ])('have the documented threshold for what is %s', (_, expected) => {
    expect(rules.filter(({ expr }) => expected.test(expr))).toHaveLength(1)
  })
})

describe('the dashboard', () => {
  test.each(panels.map((panel) => [panel.title, panel] as const))(
    '%s shows something in its unit',
    (_, panel) => {
      expect(panel.title).toMatch(/^\S/)
      expect(panel.fieldConfig.defaults.unit).toMatch(/^[a-z_]+$/)
      expect(panel.targets.length).toBeGreaterThan(0)
      expect(panel.targets.flatMap(({ expr }) => faultsOf(expr))).toEqual([])
      expect(new Set(panel.targets.map(({ refId }) => refId)).size).toBe(panel.targets.length)
    },
  )

  test('asks for its variables by metrics that exist, and uses no others', () => {
    const asked = dashboard.templating.list.flatMap(({ query }) =>
      typeof query === 'object' ? [(query as { query: string }).query] : [],
    )
    expect(asked).toHaveLength(2)
    expect(asked.flatMap(faultsOf)).toEqual([])
    const names = dashboard.templating.list.map(({ name }) => name)
    const used = [...JSON.stringify(dashboard).matchAll(/\$\{?([a-z]+)\b/g)].map(([, name]) => name)
    expect(used.filter((name) => !names.includes(name as string))).toEqual([])
  })

  test('has no panel twice and none upon another', () => {
    const { panels: all } = dashboard
    expect(new Set(all.map(({ id }) => id)).size).toBe(all.length)
    const overlaps = all.flatMap((one, i) =>
      all.slice(i + 1).filter((other) => isUpon(one.gridPos, other.gridPos)),
    )
    expect(overlaps.map(({ title }) => title)).toEqual([])
    expect(all.filter(({ gridPos: { x, w } }) => x + w > 24)).toEqual([])
  })
})

function isUpon(one: Panel['gridPos'], other: Panel['gridPos']): boolean {
  const apart = one.x + one.w <= other.x || other.x + other.w <= one.x
  return !apart && one.y < other.y + other.h && other.y < one.y + one.h
}
