import { readServerConfig, type ServerConfig, serverVariables } from '../config.ts'
import { hubOptions, serverOptions } from '../options/table.ts'
import { readArguments } from './arguments.ts'
import { type Command, isLogging, type Out } from './command.ts'
import { describeVariables } from './describe-options.ts'
import { HeldOutput } from './held-output.ts'
import type { Serving } from './serving.ts'
import { watchSignals } from './signals.ts'
import { readManifest } from './version.ts'

const help = `posthorn serve

Runs the HTTP API, sends webhooks and keeps the database in order until SIGTERM, SIGINT or SIGHUP: then it answers whoever waits,
finishes what is under way (30 s at most) and ends. A second signal ends it at once.

Environment:
${describeVariables(serverOptions, hubOptions)}`

export const serve: Command = {
  help,
  async run(args, out) {
    readArguments(args, { variables: serverVariables })
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
  const log = createLogger(config.log, output)
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
