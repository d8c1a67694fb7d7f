export type { Attempt, Handler } from '../consume/attempt.ts'
export type { Catalogue, EventToPublish } from '../domain/catalogue.ts'
export type { EventInput } from '../domain/event.ts'
export type { StoredEvent } from '../domain/stored-event.ts'
export { type ErrorCode, PosthornError } from '../errors.ts'
export type {
  CancelAnswer,
  CancelManyAnswer,
  EventDelivery,
  EventDetails,
  EventPage,
  FailAnswer,
  HeartbeatAnswer,
  LeasedEvent,
  ListedEvent,
  LogEntry,
  PublishedEvent,
  RemoteEvent,
  RemoteWorker,
  SettleResult,
  Subscriber,
} from './answers.ts'
export type {
  CancelFilter,
  EventQuery,
  FailureReport,
  Lease,
  Outcome,
  PublishOptions,
  Report,
  SubscribeOptions,
} from './call-options.ts'
export { PosthornClient } from './client.ts'
export { PosthornHttpError, type Problem } from './http-error.ts'
export type { SubscriberInput } from './subscriber-calls.ts'
export type { ClientOptions } from './transport.ts'
export type { PullWorker, StopOptions, WorkerHandler, WorkerOptions } from './worker.ts'
export type { WorkerLog } from './worker-log.ts'
