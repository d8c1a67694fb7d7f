/** Plants one of the bugs of support/planted-bugs.js into the driver's own schema and processes. */
import { readMigrations } from '../../dist/db/migration-files.js'
import { Hold } from '../../dist/memory/hold.js'
import { changeStatement, findBug, outliveClaims, sqlOf } from '../support/planted-bugs.js'

/** Changes the schema, once. */
export async function prepareBug(name, { pool, schema }) {
  if (name === undefined) return
  for (const text of sqlOf(findBug(name), { schema, migrations: await readMigrations() }))
    await pool.query(text)
}

/** Changes statements on their way to the database, in this process. */
export function plantBug(name, db) {
  if (name === undefined) return
  const bug = findBug(name)
  if (bug.frozenOwner) outliveClaims(Hold)
  if (bug.statements === undefined) return
  const changed = new Map()
  const instead = (statement) => {
    if (!changed.has(statement.name)) changed.set(statement.name, changeStatement(bug, statement, db.schema))
    return changed.get(statement.name)
  }
  const wrap = (connection) => ({
    query: (text, values) => connection.query(text, values),
    run: (statement, values) => connection.run(instead(statement), values),
  })
  const { run, once, transaction } = db
  db.run = (statement, values) => run.call(db, instead(statement), values)
  db.once = (statement, values, options) => once.call(db, instead(statement), values, options)
  db.transaction = (work, options) => transaction.call(db, (tx) => work(wrap(tx)), options)
}
