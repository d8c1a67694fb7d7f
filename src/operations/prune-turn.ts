import { type Database, defineStatement } from '../db/database.ts'

/**
 * Whether it is this process's turn to prune, which it then is for a while: of many processes with upkeep one does it
 * at a time, so that the pauses it makes are pauses. If it dies another one takes over.
 */
export async function takePruneTurn(
  db: Database,
  { holder, turnMs }: { readonly holder: string; readonly turnMs: number },
): Promise<boolean> {
  const rows = await db.once<[name: string]>(takeStatement(db), [holder, turnMs], { durable: false })
  return rows.length > 0
}

const takeStatement = defineStatement(
  'take_prune_turn',
  `insert into __schema__.retention_walks as w (name, holder, due_at)
  values ('turn', $1, __schema__.clock() + $2 * interval '1 ms')
  on conflict (name) do update
  set holder = excluded.holder, due_at = excluded.due_at
  where w.holder = excluded.holder or w.due_at not between __schema__.clock() and excluded.due_at
  returning w.name`,
)
