/** A caller's own transaction: anything that runs SQL inside it. A `pg` client is one; adapters make others. */
export interface CallerTransaction {
  query(text: string, values?: readonly unknown[]): Promise<{ rows: readonly unknown[] }>
}
