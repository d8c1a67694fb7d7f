/** Rows as objects: `names` are those of the columns, in the order of the select list. */
export function namedRows<Row>(
  names: readonly (keyof Row & string)[],
  rows: readonly (readonly unknown[])[],
): Row[] {
  return rows.map((row) => Object.fromEntries(names.map((name, at) => [name, row[at]])) as Row)
}
