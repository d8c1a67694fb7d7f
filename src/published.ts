import type { EventEmitter } from 'node:events'
import type { NewEvent } from './domain/event.ts'
import type { HubEvents } from './observe/hub-events.ts'
import type { Metrics } from './observe/metrics.ts'
import type { PublishAnswer } from './operations/publish.ts'

export interface PublishHooks {
  readonly events: EventEmitter<HubEvents>
  readonly metrics: Metrics
  /** Events that nobody wanted. */
  readonly unrouted: (eventIds: readonly number[]) => void
  /** Whoever pulls may have waited for these. */
  readonly offer: (events: readonly { owed: readonly number[]; tags: readonly string[] | null }[]) => void
  /** This process works on it. */
  readonly isServed: (subscription: number) => boolean
  readonly wake: () => void
}

/** Tells everybody in this process what was just stored. */
export function tellPublished(
  hooks: PublishHooks,
  { published: answers, runs }: PublishAnswer,
  events: readonly NewEvent[],
): void {
  const published = answers.filter(({ refused }) => refused === null)
  hooks.metrics.published.inc(published.length)
  const unrouted = published.filter((event) => event.owed.length === 0)
  if (unrouted.length > 0) hooks.metrics.unrouted.inc(unrouted.length)
  // A repeat was told when it was first published.
  const first = unrouted.filter((event) => !event.replayed && !event.conflict)
  if (first.length > 0) hooks.unrouted(first.map((event) => event.id))
  if (hooks.events.listenerCount('published') > 0) hooks.events.emit('published', published)
  hooks.offer(answers.map(({ owed }, place) => ({ owed, tags: events[place]?.tags ?? null })))
  // Within the process no database is needed to wake up, and what was handed over needs no waking.
  const handed = new Set(runs.map((run) => run.subscription))
  const isWaited = (no: number) => hooks.isServed(no) && !handed.has(no)
  if (published.some((event) => event.owed.some(isWaited))) hooks.wake()
}
