// For examples with tables of their own: the embedded server that a hub starts by itself is the hub's alone.
if (!process.env.DATABASE_URL) {
  console.error(
    'This example needs a PostgreSQL server of yours: set DATABASE_URL, such as postgres://localhost/test',
  )
  process.exit(1)
}
