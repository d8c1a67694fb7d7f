/** What a hub tells whoever listens on `hub.events`. */
export interface HubEvents {
  /**
   * Not told of events published in a caller's transaction (`tx`) or by SQL: the hub cannot know whether that
   * commits.
   */
  published: [events: readonly { id: number; owed: readonly number[] }[]]
  settled: [delivery: { subscription: string; eventId: number; settlement: string; executionMs: number }]
  /** With no subscription: an event that nobody wanted, buried because a route was required. */
  buried: [delivery: { subscription: string | null; eventId: number; reason: string }]
  /** Events were just published to a queue that is past its high watermark. */
  backpressure: [{ queue: string }]
  /** Upkeep in this process found that a queue has finished what it was told to drain. */
  drained: [{ queue: string }]
  lost: [delivery: { subscription: string; eventId: number; why: string }]
}

/** A delivery that has become a dead letter. */
export interface Burial {
  /** Null: no subscription wanted the event. */
  readonly subscription: string | null
  readonly eventId: number
  readonly type: string | null
  readonly reason: string
  /** The lane that stops at it; null: none. */
  readonly stopsLane: string | null
}
