/**
 * Mistakes that others have made, or that we have mended, put back into the real SQL to see whether the simulation and the
 * chaos driver notice. Only tests can set them: statements are changed in the memory of their own processes, functions in
 * their own schema. A text that is no longer there throws, so that a mistake does not vanish unnoticed.
 *
 * `before` is run first; `functions` are made anew with changes; `statements` change on their way to the database.
 */
export const plantedBugs = {
  'unfenced-settle': {
    statements: {
      settle: [
        ['where r.id = any($1) and r.token = any($2)', 'where r.id = any($1)'],
        ['and h.id = g.run_id and h.token = g.token', 'and h.id = g.run_id'],
      ],
    },
  },
  // Every row of a lane's queue is sent out by itself, and SKIP LOCKED takes the one behind the head.
  'lease-behind-head': {
    before: 'drop index __schema__.runs_lane',
    functions: {
      admit: [
        [
          `where not exists (
        select 1 from __schema__.runs r
        where r.subscription = l.subscription and r.ordering_key = l.ordering_key and r.state not in ('delayed', 'held'))`,
          'where true',
        ],
      ],
    },
  },
  'admit-by-cursor': {
    before: 'create sequence __schema__.seen_ids',
    functions: {
      admit: [
        ['if busy then return; end if;', 'if busy then return; end if; since_id := null;'],
        // What comes in for the second time has an old id: only new arrivals are looked up by the cursor.
        [
          'where i.id >= since_id',
          `where (i.event_ids is null or i.again_as is not null
            or i.event_ids[1] > (select c.last_value from __schema__.seen_ids c))`,
        ],
        [
          'moved := moved + promoted;\n',
          `perform setval('__schema__.seen_ids', max(e.id)) from __schema__.events e having count(*) > 0;
  moved := moved + promoted;\n`,
        ],
      ],
    },
  },
  'unguarded-reclaim': {
    statements: {
      find_expired: [
        [`where r.state = 'leased' and r.leased_until < __schema__.clock()`, 'where r.token is not null'],
      ],
      take_back: [[` and r.state = 'leased'`, '']],
    },
  },
  // Admit consumes the note of a lane whose next chunk somebody else has locked.
  'lanes-fall-asleep': {
    functions: { admit: [['where f.ctid not in (select l.ctid from locked l)', 'where false']] },
  },
  // One inbox row per kind of event instead of one per call.
  'batch-loses-order': {
    functions: {
      publish_many: [
        [
          'group by d.no, (d.place - 1) / 1000\n',
          'group by d.no, d.tags, d.expires_at, d.max_failures, (d.place - 1) / 1000\n',
        ],
      ],
    },
  },
  // The head of a blocked lane is gated by the subscription's option of today, and its own gate is told nothing.
  'redrive-strands': {
    functions: {
      enter_again: [
        [
          `set state = (case when r.concurrency_key is null then 'ready'`,
          `set state = (case when g.concurrency_key is null then 'ready'`,
        ],
        ['from heads h\n  where h.concurrency_key is not null', 'from heads h\n  where false'],
      ],
    },
  },
  // A stopped owner of a memory queue goes on from its buffer when it wakes up, whoever has the queue by then.
  'frozen-owner': { frozenOwner: true },
  // Time that has passed is less than none when the clock is set back, and a bucket of tokens empties by as much.
  'clock-steps-back': {
    functions: {
      tokens_now: [
        ["when refilled_at > __schema__.clock() + interval '1 s' then", 'when false then'],
        ['else greatest(tokens, 0) +', 'else tokens +'],
        [
          "greatest(date_part('epoch', __schema__.clock() - refilled_at), 0)",
          "date_part('epoch', __schema__.clock() - refilled_at)",
        ],
      ],
    },
  },
  // A payload that jsonb cannot hold is an error of whoever asks for a key in it.
  'unreadable-key': {
    functions: {
      readable: [
        ['exception when data_exception or program_limit_exceeded then\n  return null;\nend', 'end'],
      ],
    },
  },
}

export function findBug(name) {
  const bug = plantedBugs[name]
  if (bug === undefined)
    throw new Error(`Expected one of ${Object.keys(plantedBugs).join(', ')}, got ${name}.`)
  return bug
}

/** The SQL that changes a schema, of these migrations. */
export function sqlOf(bug, { schema, migrations }) {
  const functions = Object.entries(bug.functions ?? {}).map(([name, changes]) => {
    const text = functionIn(migrations, name)
    return replaceOnce(text, changes).replace('create function', 'create or replace function')
  })
  return [...(bug.before === undefined ? [] : [bug.before]), ...functions].map((text) =>
    text.replaceAll('__schema__', schema),
  )
}

function functionIn(migrations, name) {
  const head = `create function __schema__.${name}(`
  const found = migrations.filter(({ text }) => text.split(head).length === 2)
  if (found.length !== 1) throw new Error(`Expected one function ${name} in the migrations.`)
  const [{ text }] = found
  const from = text.indexOf(head)
  const opening = text.indexOf('as $$', from) + 'as $$'.length
  return text.slice(from, text.indexOf('$$;', opening) + '$$;'.length)
}

/** The same statement with its changes, if it has any. */
export function changeStatement(bug, statement, schema) {
  const fill = (text) => text.replaceAll('__schema__', schema)
  const changes = bug.statements?.[statement.name]?.map((pair) => pair.map(fill))
  if (changes === undefined) return statement
  return { name: `${statement.name}_changed`, text: replaceOnce(statement.text, changes) }
}

/** Whoever once had a memory queue goes on with what it has in memory. `Hold` is the class of this process. */
export function outliveClaims(Hold) {
  if (!/memoryHeldMs/.test(Hold.prototype.isOurs)) throw new Error('A hold is no longer judged by its age.')
  Hold.prototype.isOurs = () => true
}

/** Throws where there is nothing to replace. */
export function replaceOnce(text, changes) {
  return changes.reduce((changed, [found, put]) => {
    if (changed.split(found).length !== 2) throw new Error(`Expected once in the text: ${found}`)
    return changed.replace(found, () => put)
  }, text)
}
