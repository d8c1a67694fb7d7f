import { PosthornError } from '../errors.ts'

const schemaPattern = /^(?!pg_)[a-z_][a-z0-9_]{0,62}$/

/** The name of a schema stands in SQL text, where no parameter can, so only plain names are allowed. */
export function quoteSchema(name: string, option = 'schema'): string {
  if (typeof name !== 'string' || !schemaPattern.test(name)) {
    throw new PosthornError('BAD_OPTION', {
      option,
      expected: '1 to 63 of a-z, 0-9 and _, not starting with a digit or pg_',
      value: name,
    })
  }
  return quoteIdentifier(name)
}

export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
