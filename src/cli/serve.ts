import { environmentVariables, readServerConfig, type ServerConfig } from '../config.ts'
import { readArguments } from './arguments.ts'
import { type Command, isLogging, type Out } from './command.ts'
import { HeldOutput } from './held-output.ts'
import type { Serving } from './serving.ts'
import { watchSignals } from './signals.ts'
import { readManifest } from './version.ts'

const help = `posthorn serve

Runs the HTTP API, sends webhooks and keeps the database in order until SIGTERM, SIGINT or SIGHUP: then it answers whoever waits,
finishes what is under way (30 s at most) and ends. A second signal ends it at once.

Environment:
  PORT                 8080
  HOST                 127.0.0.1; another address needs an API key (posthorn keys) or POSTHORN_ADMIN_KEY
  DATABASE_URL         a PostgreSQL server, 14 or later; without it an embedded one is started
  POSTHORN_DATA_DIR    where the embedded one keeps its data (./posthorn-data)
  POSTHORN_SCHEMA      the schema that holds all tables (posthorn)
  POSTHORN_MIGRATE     false: pending migrations are not applied, and it does not start while there are any (true)
  POSTHORN_POOL_MAX    connections to the database, apart from one that listens (20)
  POSTHORN_PREPARED    false: no named statements, for PgBouncer before 1.21 in transaction mode (true)
  POSTHORN_ROLES       what this process does: api, dispatcher, upkeep (all)
  POSTHORN_ADMIN_KEY   a key that may do everything, 16 characters or more
  POSTHORN_SECRET_KEY  what secrets are stored encrypted with (openssl rand -base64 32); several with commas between
                       them, the newest first; the embedded database has one of its own
  POSTHORN_ALLOW_CIDRS private networks that webhooks may go to, such as 10.0.0.0/8, 127.0.0.1 (none)
  WEBHOOK_TIMEOUT_MS   how long a webhook may take whose subscriber does not say (10000)
  BATCH_SIZE           how many deliveries of one subscriber are leased at once, at most (20)
  POLL_INTERVAL_MS     how often the database is asked for work while there is some (100)
  POSTHORN_KEEP_FINISHED_MS      how long finished events are kept (7 days)
  POSTHORN_KEEP_AUDIT_MS         how long the audit is kept, a day at least (7 days)
  POSTHORN_KEEP_DEAD_LETTERS_MS  how long dead letters are kept (90 days)
  POSTHORN_ARCHIVE_DIR           where the audit is written to before it goes (nowhere)
  LOG_LEVEL            silent, fatal, error, warn, info, debug or trace (info)`

export const serve: Command = {
  help,
  async run(args, out) {
    readArguments(args, { variables: environmentVariables })
    const config = readServerConfig()
    const signals = watchSignals()
    try {
      await serveUntil(signals.told, config, out)
    } finally {
      signals.release()
    }
    return 0
  },
}

async function serveUntil(told: Promise<NodeJS.Signals>, config: ServerConfig, out: Out): Promise<void> {
  const { createLogger } = await import('../observe/log.ts')
  const { startServing } = await import('./serving.ts')
  const output = new HeldOutput(process.stdout)
  const log = createLogger(config.logLevel, output)
  const serving = await startServing(config, log).catch((error: unknown) => {
    // Whoever asked for a log wants it now more than ever; to all others the error says what is needed.
    if (isLogging()) output.release()
    throw error
  })
  for (const line of readyLines(config, serving)) out(line)
  output.release()
  log.info({ signal: await told }, 'Stopping')
  await serving.stop()
  log.info('Stopped')
}

/** Where it listens, where the data lives and how safe it is there, and a call that works as it is printed. */
export function readyLines(config: ServerConfig, { port, hasKeys, store }: Serving): string[] {
  const name = `posthorn ${readManifest().version}`
  if (port === undefined) return [`${name} runs ${config.roles.join(' and ')}, and no API`, store]
  const host = everywhere.includes(config.host) ? 'localhost' : bracketed(config.host)
  const whom = hasKeys ? '' : ', for this machine only: there are no API keys'
  const key = hasKeys ? ' -H "Authorization: Bearer $POSTHORN_KEY"' : ''
  return [
    `${name} listens on http://${bracketed(config.host)}:${port} (docs: http://${host}:${port}/docs)${whom}`,
    store,
    `try:  curl -s${key} ${near(config.host)}:${port}/events -d '{"type":"hello","payload":{"n":1}}'`,
  ]
}

/** To listen on; nobody can connect to them. */
const everywhere = ['0.0.0.0', '::']

/** What is short to type, where it means the same. */
function near(host: string): string {
  return [...everywhere, '127.0.0.1', '::1'].includes(host) ? 'localhost' : bracketed(host)
}

function bracketed(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}
