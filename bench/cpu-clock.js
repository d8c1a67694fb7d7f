/** The CPU time of a whole PostgreSQL server, from the system's own accounts: of its postmaster and all its children. */
import { readdirSync, readFileSync } from 'node:fs'
import pg from 'pg'

const ticksPerSecond = 100

/**
 * @returns {Promise<{ stop: () => Promise<number> }>} `stop` tells how many microseconds of CPU were used since; NaN where the
 * server runs elsewhere or the system has no /proc
 */
export async function startServerClock(database) {
  const postmaster = await findPostmaster(database)
  const before = readTicks(postmaster)
  return { stop: async () => ((readTicks(postmaster) - before) * 1_000_000) / ticksPerSecond }
}

async function findPostmaster(database) {
  const client = new pg.Client(database)
  await client.connect()
  const { rows } = await client.query('select pg_backend_pid() as pid')
  const parent = readStat(rows[0].pid)?.parent
  await client.end()
  return parent
}

/** Children that have ended are in the postmaster's own account. */
function readTicks(postmaster) {
  const own = readStat(postmaster)
  if (own === undefined) return Number.NaN
  let ticks = own.ticks + own.endedTicks
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue
    const stat = readStat(entry)
    if (stat?.parent === postmaster) ticks += stat.ticks
  }
  return ticks
}

function readStat(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    const [utime, stime, cutime, cstime] = fields.slice(11, 15).map(Number)
    return { parent: Number(fields[1]), ticks: utime + stime, endedTicks: cutime + cstime }
  } catch {
    // It has ended, or there is no /proc.
    return undefined
  }
}
