import { monotonicUs } from './recorder.js'

/** The database's own word on leases: who held which delivery until when, written down by a trigger. */

export async function watchLeases(world) {
  await world.query(`
    create table __schema__.lease_history (
      no bigint generated always as identity, at timestamptz not null, verb text not null, subscription int not null,
      event_id bigint not null, token bigint, until timestamptz);
    create function __schema__.watch_lease() returns trigger language plpgsql as $$
    declare
      gone bigint[];
    begin
      if tg_op <> 'INSERT' and old.state = 'leased' then
        gone := old.event_ids;
        if tg_op = 'UPDATE' and new.state = 'leased' and new.token = old.token then
          gone := array(select id from unnest(old.event_ids) as id where id <> all(new.event_ids));
        end if;
        insert into __schema__.lease_history (at, verb, subscription, event_id, token)
        select clock_timestamp(), 'ends', old.subscription, id, old.token from unnest(gone) as id;
      end if;
      -- Only a reclaim leaves the token where it was.
      if tg_op <> 'DELETE' and new.state = 'ready' and new.token is not null
        and (tg_op = 'INSERT' or old.state = 'leased') then
        insert into __schema__.lease_history (at, verb, subscription, event_id, token)
        select clock_timestamp(), 'taken back', new.subscription, id, new.token from unnest(new.event_ids) as id;
      end if;
      if tg_op <> 'DELETE' and new.state = 'leased' then
        insert into __schema__.lease_history (at, verb, subscription, event_id, token, until)
        select clock_timestamp(), 'holds', new.subscription, id, new.token, new.leased_until
        from unnest(new.event_ids) as id;
      end if;
      return null;
    end $$;
    create trigger watch_lease after insert or update or delete on __schema__.runs
      for each row execute function __schema__.watch_lease()`)
}

/**
 * A delivery changes hands only when its lease has ended by the clock or was given up.
 * `expiries` says which leases ended by the clock, and when by ours: a worker that is starved for as long as a
 * lease loses it like one that was frozen.
 * @returns {Promise<{ leases: number, expiries: { delivery: string, at: number }[], violations: string[] }>}
 */
export async function judgeLeases(world) {
  const offsetUs = await clockOffsetUs(world)
  const rows = await world.query(`
    select h.no, h.verb, s.name as subscription, h.event_id, h.token, extract(epoch from h.at) as at,
      extract(epoch from h.until) as until
    from __schema__.lease_history h
    join __schema__.subscriptions s on s.no = h.subscription
    order by h.no`)
  const holders = new Map()
  const violations = []
  let leases = 0
  const expiries = []
  for (const { verb, subscription, event_id: id, token, at, until } of rows) {
    const name = `${subscription} ${id}`
    const holder = holders.get(name)
    if (verb === 'ends') {
      if (holder?.token === token) holders.set(name, { ...holder, ended: true })
      continue
    }
    if (verb === 'taken back') {
      expiries.push({ delivery: name, at: Number(at) * 1e6 - offsetUs })
      if (holder?.token === token && Number(at) < Number(holder.until)) {
        violations.push(`taken back too early: delivery ${name} from ${token}`)
      }
      continue
    }
    if (holder?.token !== token) {
      leases++
      if (holder !== undefined && !holder.ended && Number(at) < Number(holder.until)) {
        violations.push(`leased twice: delivery ${name} went to ${token} while ${holder.token} held it`)
      }
    }
    holders.set(name, { token, until, ended: false })
  }
  return { leases, expiries, violations: violations.slice(0, 10) }
}

/** How far the database's clock is ahead of ours, rather too much than too little: the answer takes its time. */
async function clockOffsetUs(world) {
  const before = monotonicUs()
  const [{ now }] = await world.query('select extract(epoch from clock_timestamp()) as now')
  return Number(now) * 1e6 - before + slackUs
}

const slackUs = 2_000
