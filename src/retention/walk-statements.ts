import { defineStatement } from '../db/database.ts'

/** Gives the turn to prune to the process $1 for $2 ms, unless another process has it. */
export const takeTurn = defineStatement(
  'take_prune_turn',
  `insert into __schema__.retention_walks as w (name, holder, due_at)
  values ('turn', $1, __schema__.clock() + $2 * interval '1 ms')
  on conflict (name) do update
  set holder = excluded.holder, due_at = excluded.due_at
  where w.holder = excluded.holder or w.due_at not between __schema__.clock() and excluded.due_at
  returning w.name`,
)

export const makeWalk = defineStatement(
  'make_walk',
  'insert into __schema__.retention_walks (name) values ($1) on conflict do nothing',
)

/** A time that lies more than a day ahead was written before the clock was set back, and counts as due. */
export const takeWalkWhenDue = defineStatement(
  'take_walk_when_due',
  `select w.reached, w.reached_key, w.kept
  from __schema__.retention_walks w
  where w.name = $1 and w.due_at not between __schema__.clock() and __schema__.clock() + interval '1 day'
  for update skip locked`,
)

export const takeWalkNow = defineStatement(
  'take_walk_now',
  `select w.reached, w.reached_key, w.kept
  from __schema__.retention_walks w
  where w.name = $1
  for update`,
)

export const goOnWithWalk = defineStatement(
  'go_on_with_walk',
  'update __schema__.retention_walks set reached = $2, reached_key = $3, kept = $4 where name = $1',
)

/** The next pass begins after $2, in $3 ms; once a day it begins at the start. */
export const endPass = defineStatement(
  'end_pass',
  `update __schema__.retention_walks w
  set reached = case when f.is_due then 0 else $2::bigint end, reached_key = '', kept = null,
    full_at = case when f.is_due then __schema__.clock() else w.full_at end,
    due_at = __schema__.clock() + $3 * interval '1 ms'
  from (
    select o.full_at not between __schema__.clock() - interval '1 day' and __schema__.clock() as is_due
    from __schema__.retention_walks o
    where o.name = $1
  ) as f
  where w.name = $1`,
)

export const restartPass = defineStatement(
  'restart_walk',
  `update __schema__.retention_walks
  set reached = 0, reached_key = '', kept = null, due_at = __schema__.clock(), full_at = __schema__.clock()
  where name = $1`,
)
