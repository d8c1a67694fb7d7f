import { badOption } from '../../domain/bad-value.ts'
import { checkTransaction, rowsOf } from '../../domain/caller-transaction.ts'
import { checkOptions } from '../../domain/known-names.ts'

/** The receiver's own transaction: a `pg` client, or one made by an adapter of `posthorn/adapters`. */
export interface InboxTransaction {
  query(text: string, values?: readonly unknown[]): Promise<{ rows: readonly unknown[] }>
}

export interface InboxOptions {
  /** The sender, where several senders share the table: it keeps their ids apart. */
  readonly source?: string
}

/** Creates the table. Run it with your migrations. */
export const inboxTable =
  'create table if not exists posthorn_inbox (' +
  'source text not null, id text not null, received_at timestamptz not null default now(), primary key (source, id))'

/**
 * Stores a webhook's id in the transaction that also holds its effect. False: the id is not new, so there is nothing left to
 * do; answer 2xx. A second request with the same id waits until the transaction of the first has ended.
 */
export async function inbox(tx: InboxTransaction, id: string, options: InboxOptions = {}): Promise<boolean> {
  checkTransaction(tx)
  checkOptions(options, { source: true }, 'inbox')
  const { source = '' } = options
  if (typeof id !== 'string' || id === '') throw badOption('id', 'the id of a webhook', id)
  return rowsOf(await tx.query(noteSql, [source, id])).length === 1
}

const noteSql =
  'insert into posthorn_inbox (source, id) select $1::text, $2::text on conflict (source, id) do nothing returning id'
