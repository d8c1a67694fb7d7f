/**
 * The plain implementation that B12 compares us with: one table, one statement to lease and one to complete, a log insert in
 * each of them, node:http and a pool of 20. It is what a good engineer writes in an afternoon: no ordering keys, no
 * subscriptions, no fencing tokens, and no reclaim of leases.
 */
import { createServer } from 'node:http'
import pg from 'pg'

const { database, schema } = JSON.parse(process.env.BENCH_SETUP)
const pool = new pg.Pool({ ...database, max: 20 })
await pool.query(`
  create schema ${schema};
  create table ${schema}.events (
    id bigint generated always as identity primary key,
    title text not null,
    tags text[] not null,
    payload jsonb not null,
    status text not null default 'PENDING',
    worker_id text,
    locked_at timestamptz,
    retry_count int not null default 0,
    max_retries int not null default 3,
    created_at timestamptz not null default now()
  );
  create index on ${schema}.events (id) where status = 'PENDING';
  create index on ${schema}.events using gin (tags) where status = 'PENDING';
  create table ${schema}.event_log (
    id bigint generated always as identity primary key,
    event_id bigint not null,
    worker_id text not null,
    action text not null,
    execution_time_ms int,
    created_at timestamptz not null default now()
  );
  create index on ${schema}.event_log (event_id)`)

const lease = {
  name: 'lease',
  text: `with leased as (
    update ${schema}.events set status = 'PROCESSING', worker_id = $2, locked_at = now()
    where id = (
      select id from ${schema}.events
      where status = 'PENDING' and tags && $1::text[]
      order by id
      limit 1
      for update skip locked)
    returning *
  ), logged as (
    insert into ${schema}.event_log (event_id, worker_id, action) select id, $2, 'PICKED' from leased
  )
  select * from leased`,
}
const complete = {
  name: 'complete',
  text: `with completed as (
    update ${schema}.events set status = 'COMPLETED'
    where id = $1 and worker_id = $2 and status = 'PROCESSING'
    returning id
  )
  insert into ${schema}.event_log (event_id, worker_id, action, execution_time_ms)
  select id, $2, 'COMPLETED', $3 from completed
  returning *`,
}

const server = createServer(async (request, response) => {
  try {
    const { status, body } = await answer(request)
    const text = body === undefined ? '' : JSON.stringify(body)
    response.writeHead(status, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text),
    })
    response.end(text)
  } catch (error) {
    response.writeHead(500).end(String(error))
  }
})
server.listen(0, '127.0.0.1', () => process.send({ url: `http://127.0.0.1:${server.address().port}` }))
process.on('message', handle)

async function answer(request) {
  const { pathname, searchParams } = new URL(request.url, 'http://localhost')
  if (request.method === 'GET' && pathname === '/events/subscribe') {
    const values = [searchParams.get('tags').split(','), searchParams.get('worker_id')]
    const { rows } = await pool.query({ ...lease, values })
    return rows.length === 0 ? { status: 204 } : { status: 200, body: rows[0] }
  }
  const [, id] = /^\/events\/(\d+)\/complete$/.exec(pathname) ?? []
  const { worker_id: worker, execution_time_ms: ms } = JSON.parse(await read(request))
  const { rows } = await pool.query({ ...complete, values: [id, worker, ms] })
  return rows.length === 0 ? { status: 409 } : { status: 200, body: rows[0] }
}

async function read(request) {
  let text = ''
  for await (const chunk of request) text += chunk
  return text
}

async function handle(message) {
  if (message === 'cpu') {
    process.send({ cpu: process.cpuUsage() })
  } else if (message === 'stop') {
    server.closeAllConnections()
    server.close()
    await pool.query(`drop schema ${schema} cascade`)
    await pool.end()
    process.disconnect()
  } else if (message.fill !== undefined) {
    await pool.query(
      `insert into ${schema}.events (title, tags, payload)
      select 'Work', array['bench', 'shard-' || n % 10], jsonb_build_object('n', n)
      from generate_series(0, $1::int - 1) as n`,
      [message.fill],
    )
    await pool.query(`analyze ${schema}.events`)
    await pool.query('checkpoint')
    process.send({ filled: message.fill })
  } else {
    const { rows } = await pool.query(
      `select count(*) filter (where status = 'COMPLETED')::int as completed from ${schema}.events`,
    )
    process.send(rows[0])
  }
}
