import type { Metrics } from './metrics.ts'

/** A request that was answered, or whose client hung up. */
export interface FinishedRequest {
  readonly method: string
  /** The path as the API describes it: `/events/{id}`. Null: no route matches. */
  readonly route: string | null
  readonly status: number
  readonly ms: number
}

/** Counts requests. To find a labelled metric costs more than to count, so each is looked up once. */
export function observeRequests(metrics: Metrics): (request: FinishedRequest) => void {
  const found = new Map<string, (seconds: number) => void>()
  return ({ method, route: pattern, status, ms }) => {
    const route = pattern ?? 'none'
    const key = `${method} ${status} ${route}`
    let count = found.get(key)
    if (count === undefined) {
      const total = metrics.requests.labels({ method, route, status: String(status) })
      const duration = metrics.requestSeconds.labels({ route })
      count = (seconds) => {
        total.inc()
        duration.observe(seconds)
      }
      found.set(key, count)
    }
    count(ms / 1000)
  }
}
