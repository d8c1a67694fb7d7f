import type { Core } from '../core/core.ts'
import type { PublishedEvents } from '../core/signals.ts'

/** Counts what was published, and tells the listeners of the hub. */
export function observePublished({ metrics, events, signals }: Core): void {
  signals.on('published', ({ answers }: PublishedEvents) => {
    const stored = answers.filter(({ refused }) => refused === null)
    metrics.published.inc(stored.length)
    const unrouted = stored.filter(({ owed }) => owed.length === 0)
    if (unrouted.length > 0) metrics.unrouted.inc(unrouted.length)
    if (events.listenerCount('published') > 0) events.emit('published', stored)
  })
}
