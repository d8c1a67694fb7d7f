/** `posthorn/webhooks`: the receiver's side. It needs no hub and no database of Posthorn's. */

export { PosthornError } from '../errors.ts'
export type { WebhookHeaders } from './headers.ts'
export { type InboxOptions, type InboxTransaction, inbox, inboxTable } from './inbox.ts'
export type { LanePlace } from './lane.ts'
export { LaneChecker, type LaneCheckerOptions, type LaneVerdict } from './lane-checker.ts'
export { type SignOptions, sign } from './sign.ts'
export { type VerifiedWebhook, type VerifyOptions, verify } from './verify.ts'
