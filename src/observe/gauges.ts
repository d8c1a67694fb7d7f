import type { Gauge } from 'prom-client'
import type { Stats } from '../domain/hub-stats.ts'
import type { Metrics } from './metrics.ts'
import { SharedReading } from './shared-reading.ts'

/** A memory queue of this process. */
export interface MemoryFigures {
  readonly subscription: { readonly name: string }
  readonly unpersisted: number
  readonly figures: Readonly<Record<QueueFigure, number>>
}

type QueueFigure = 'waiting' | 'delayed' | 'retries' | 'leased' | 'oldestSeconds'

/** Figures that are read when somebody reads the metrics. */
export interface Figures {
  readonly underWay: () => number
  readonly longPolls: () => number
  readonly connections: () => { readonly idle: number; readonly used: number; readonly waiting: number }
  readonly stats: () => Promise<Stats>
  readonly memory: () => readonly MemoryFigures[]
  readonly trouble: (error: unknown, doing: string) => void
}

const statsFreshMs = 10_000
const statsWaitMsMax = 2_000

/** Binds every gauge to its figure. While the database is away, figures that come from it are left out. */
export function observeFigures(metrics: Metrics, figures: Figures): void {
  show(metrics.underWay, () => [[{}, figures.underWay()]])
  show(metrics.longPolls, () => [[{}, figures.longPolls()]])
  show(metrics.poolConnections, () =>
    Object.entries(figures.connections()).map(([state, n]) => [{ state }, n]),
  )
  const reading = new SharedReading({
    read: figures.stats,
    freshMs: statsFreshMs,
    waitMsMax: statsWaitMsMax,
    now: () => performance.now(),
    trouble: (error) => figures.trouble(error, 'reading figures for metrics'),
  })
  show(metrics.databaseUp, async () => [[{}, (await reading.get()) === undefined ? 0 : 1]])
  const showStats = (gauge: Gauge, seriesOf: (stats: Stats) => Series) =>
    show(gauge, async () => {
      const stats = await reading.get()
      return stats === undefined ? [] : seriesOf(stats)
    })
  show(metrics.memoryUnpersisted, () =>
    figures
      .memory()
      .map(({ subscription, unpersisted }) => [{ subscription: subscription.name }, unpersisted]),
  )
  const perQueue = (key: QueueFigure | 'expiring') => (stats: Stats) => {
    // Deliveries in memory do not expire.
    const views = key === 'expiring' ? [] : figures.memory()
    const inMemory = new Map(views.map((view) => [view.subscription.name, view.figures[key as QueueFigure]]))
    return stats.queues.map(({ name, [key]: stored }) => {
      const kept = inMemory.get(name) ?? 0
      return [
        { subscription: name },
        key === 'oldestSeconds' ? Math.max(stored, kept) : stored + kept,
      ] as const
    })
  }
  showStats(metrics.queueDepth, perQueue('waiting'))
  showStats(metrics.queueDelayed, perQueue('delayed'))
  showStats(metrics.queueRetries, perQueue('retries'))
  showStats(metrics.queueLeased, perQueue('leased'))
  showStats(metrics.queueExpiring, perQueue('expiring'))
  showStats(metrics.queueOldest, perQueue('oldestSeconds'))
  showStats(metrics.workers, ({ workers }) => Object.entries(workers).map(([state, n]) => [{ state }, n]))
  showStats(metrics.attemptsOverdue, ({ attemptsOverdue }) => [[{}, attemptsOverdue]])
  showStats(metrics.storageBytes, ({ tables }) =>
    tables.map(({ table, bytes }) => [{ table }, bytes] as const),
  )
  showStats(metrics.deadLetters, ({ deadLetters }) => [[{}, deadLetters]])
  showStats(metrics.oldestTransaction, ({ oldestTransactionSeconds }) => [[{}, oldestTransactionSeconds]])
}

type Series = readonly (readonly [labels: Readonly<Record<string, string>>, value: number])[]

/** Gives the gauge these values, and no others, whenever somebody reads it. */
function show(gauge: Gauge, seriesOf: () => Series | Promise<Series>): void {
  const collect = async () => {
    const series = await seriesOf()
    gauge.reset()
    // A gauge without labels resets to 0, and 0 is not the same as unknown.
    gauge.remove({})
    for (const [labels, value] of series) gauge.set({ ...labels }, value)
  }
  Object.assign(gauge, { collect })
}
