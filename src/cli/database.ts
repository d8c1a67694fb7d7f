import { readConfig } from '../config.ts'
import { type OpenedDatabase, openDatabase } from '../db/open.ts'
import { createLogger } from '../observe/log.ts'
import { isLogging } from './command.ts'

/**
 * The same database that a server with this environment uses, for the time of one command. On the embedded one it
 * joins the server that runs there, or starts it and stops it afterwards.
 */
export async function withDatabase<T>(
  { embedded }: { readonly embedded: 'any' | 'existing' },
  work: (opened: OpenedDatabase) => Promise<T>,
): Promise<T> {
  const config = readConfig(isLogging() ? {} : { log: false })
  // What a command prints may be piped into a program, so its log goes elsewhere.
  const log = createLogger(config.log, process.stderr)
  const opened = await openDatabase({ ...config, poolMax: 2, log, embedded })
  try {
    return await work(opened)
  } finally {
    await opened.close()
  }
}
