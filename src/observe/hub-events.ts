/** The events that listeners on `hub.events` hear. */
export interface HubEvents {
  /** Not for events that are published in a caller's transaction (`tx`) or by SQL: the hub cannot know whether it commits. */
  published: [events: readonly { id: number; owed: readonly number[] }[]]
  settled: [delivery: { subscription: string; eventId: number; settlement: string; executionMs: number }]
  /** Without a subscription: no subscription wanted the event, and a route was required. */
  buried: [delivery: { subscription: string | null; eventId: number; reason: string }]
  /** Events were just published to a queue that is past its high watermark. */
  backpressure: [{ queue: string }]
  /** Upkeep in this process found that a queue is drained. */
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
  /** The ordering key of the lane that stops here; null: none stops. */
  readonly stopsLane: string | null
}
