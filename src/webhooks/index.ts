/** `posthorn/webhooks`: the receiver's side. It needs neither a hub nor Posthorn's database. */

export { PosthornError } from '../errors.ts'
export type { WebhookHeaders } from './receive/headers.ts'
export { type InboxOptions, type InboxTransaction, inbox, inboxTable } from './receive/inbox.ts'
export type { LanePlace } from './receive/lane.ts'
export { LaneChecker, type LaneCheckerOptions, type LaneVerdict } from './receive/lane-checker.ts'
export { type SignOptions, sign } from './receive/signature.ts'
export { type VerifiedWebhook, type VerifyOptions, verify } from './receive/verify.ts'
