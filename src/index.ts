export type { PosthornOptions } from './config.ts'
export type { Attempt, Handler } from './consume/attempt.ts'
export { createPosthorn } from './create.ts'
export type { CallerTransaction } from './domain/caller-transaction.ts'
export {
  type Catalogue,
  defineEvents,
  type EventDefinition,
  type EventFor,
  type EventPattern,
  type EventToPublish,
  event,
} from './domain/catalogue.ts'
export type { EventInput } from './domain/event.ts'
export { deliveryId, eventShard, parseDeliveryId } from './domain/id.ts'
export type { RecoverOptions, ReplayOptions } from './domain/replay.ts'
export type { RetryPolicy } from './domain/retry.ts'
export type { StoredEvent } from './domain/stored-event.ts'
export type { Subscription, SubscriptionOptions } from './domain/subscription.ts'
export type { PublishedEvent, PublishOptions } from './engine/publish-contract.ts'
export { type ErrorCode, PosthornError } from './errors.ts'
export type { EventType, EventTypeOptions } from './events/event-type.ts'
export type { FinalizeOptions, HubEvents, PollOptions, Replay, Storage } from './hub.ts'
export type { HandlerOptions, Posthorn, StopOptions } from './posthorn.ts'
export type { Pruned, PruneOptions } from './retention/retention.ts'
