/** Records what upkeep of this process had to wake: its own counter dies with the process. */
export function watchSleepers(db, record) {
  const { once } = db
  db.once = async (statement, values, options) => {
    const rows = await once.call(db, statement, values, options)
    if (statement.name !== 'wake_sleepers') return rows
    for (const [kind, , s, key] of rows) if (kinds.has(kind)) record('woken', { what: kind, s, key })
    return rows
  }
}

const kinds = new Set(['lane', 'gate', 'queue'])
