import { defineStatement } from '../db/database.ts'

/** Waits for the admission that is running, and holds back others until the transaction ends. */
export const lockAdmissions = defineStatement(
  'lock_admissions',
  `select pg_advisory_xact_lock(hashtextextended('__schema__', 7001))`,
)

export const admitStatement = defineStatement(
  'admit',
  `select busy, moved, drained, seen_id::text, seen_xid::text, seen_pending::text, era::text
  from __schema__.admit($1::text::bigint, $2::text::xid8, $3::text::xid8[], $4::text::uuid, $5)`,
)
