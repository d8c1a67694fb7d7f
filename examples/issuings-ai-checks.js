// At most two checks at once over all processes, in order per application; what has expired is skipped and told.
import './shared/needs-database.js'
import pg from 'pg'
import { createPosthorn } from 'posthorn'

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
await pool.query(`create table issuing_check (trigger_id text primary key, work_status text);
  insert into issuing_check values ('other-1', 'NEW'), ('other-2', 'NEW')`) // two are under way
const hub = await createPosthorn({ database: pool })
const checked = []
hub.on('issuings-ai-checks', { name: 'ai-checks' }, async ({ payload }, attempt) => {
  if (!(await begin(payload.triggerId))) return attempt.snooze(100) // it stays the first of its application
  checked.push(payload.triggerId)
  await pool.query(`update issuing_check set work_status = 'DONE' where trigger_id = $1`, [payload.triggerId])
})
const told = new Promise((resolve) => hub.on('posthorn.delivery.expired', { name: 'on-call' }, resolve))
await hub.start()
for (const [triggerId, expiresAt] of [['t1'], ['t2', new Date(Date.now() + 500)], ['t3']]) {
  const payload = { triggerId, applicationId: 'a7' }
  await hub.publish({ type: 'issuings-ai-checks', payload, orderingKey: 'a7', expiresAt })
}
await told // t2 waited too long
await pool.query(`update issuing_check set work_status = 'DONE'`)
while (checked.length < 2) await new Promise((resolve) => setTimeout(resolve, 10))
const { deadLetters } = await hub.deadLetters({ kind: 'expired' })
const expired = deadLetters.map(({ eventText }) => JSON.parse(eventText).payload.triggerId)
console.log(`checked: ${checked}; expired: ${expired}`)
for (const name of ['ai-checks', 'on-call']) await hub.unsubscribe(name)
await hub.stop()
await pool.query('drop table issuing_check')
await pool.end()
/** One transaction: the next process counts only after this one has added. */
async function begin(triggerId) {
  const id = pg.escapeLiteral(triggerId)
  const [, { rowCount }] = await pool.query(`lock table issuing_check in share row exclusive mode;
    insert into issuing_check select ${id}, 'NEW'
    where (select count(*) from issuing_check where work_status = 'NEW' and trigger_id <> ${id}) < 2
    on conflict (trigger_id) do update set work_status = 'NEW'`)
  return rowCount === 1
}
