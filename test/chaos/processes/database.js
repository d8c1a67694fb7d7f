/** Where a process finds its database: a URL stays as it is, an address also says who it is. */
export function databaseOf({ database, workerId }) {
  return typeof database === 'string' ? database : { ...database, application_name: workerId }
}
