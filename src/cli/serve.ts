import { readServerConfig, type ServerConfig, serverVariables } from '../config.ts'
import type { Option } from '../options/setting.ts'
import { hubOptions, serverOptions } from '../options/table.ts'
import { readArguments } from './arguments.ts'
import { type Command, isLogging, type Out, readManifest } from './command.ts'
import type { Serving } from './serving.ts'
import { watchSignals } from './stop-signals.ts'

const helpCharsMax = 120

const help = `posthorn serve

Runs the HTTP API, sends webhooks and keeps the database in order until SIGTERM, SIGINT or SIGHUP. Then it answers long polls,
finishes requests and attempts under way (30 s at most) and ends. A second signal ends it at once.

Environment:
${describeVariables([serverOptions, hubOptions])}`

export const serve: Command = {
  help,
  async run(args, out) {
    readArguments(args, { variables: serverVariables })
    const config = readServerConfig()
    const signals = watchSignals()
    try {
      await serveUntil(signals.received, config, out)
    } finally {
      signals.release()
    }
    return 0
  },
}

async function serveUntil(
  stopSignal: Promise<NodeJS.Signals>,
  config: ServerConfig,
  out: Out,
): Promise<void> {
  const { createLogger } = await import('../observe/log.ts')
  const { startServing } = await import('./serving.ts')
  const output = new HeldOutput(process.stdout)
  const log = createLogger(config.log, output)
  const serving = await startServing(config, log).catch((error: unknown) => {
    // The error alone says what to do; the log is printed for those who asked for one.
    if (isLogging()) output.release()
    throw error
  })
  for (const line of readyLines(config, serving)) out(line)
  output.release()
  log.info({ signal: await stopSignal }, 'Stopping')
  await serving.stop()
  log.info('Stopped')
}

/** Where the server listens, where the data is and how safe it is there, and a call that works as it is printed. */
function readyLines(config: ServerConfig, { port, hasKeys, store }: Serving): string[] {
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

/** A server can listen on these addresses; nobody can connect to them. */
const everywhere = ['0.0.0.0', '::']

/** A shorter name, where it means the same. */
function near(host: string): string {
  return [...everywhere, '127.0.0.1', '::1'].includes(host) ? 'localhost' : bracketed(host)
}

function bracketed(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}

/** Keeps the lines of the log back until they are released: the lines for people are printed first. */
class HeldOutput {
  readonly #output: NodeJS.WritableStream
  #held: string[] | undefined = []

  constructor(output: NodeJS.WritableStream) {
    this.#output = output
  }

  write(line: string): void {
    if (this.#held === undefined) this.#output.write(line)
    else this.#held.push(line)
  }

  release(): void {
    for (const line of this.#held ?? []) this.#output.write(line)
    this.#held = undefined
  }
}

type Table = Readonly<Record<string, Option<unknown>>>

/** For each variable its name, its meaning and its default, wrapped below each other. */
function describeVariables(tables: readonly Table[]): string {
  const options = tables.flatMap((table) => Object.values(table)).filter(({ variable }) => variable !== null)
  const width = Math.max(...options.map(({ variable }) => variable?.length ?? 0))
  const lineStart = new RegExp(`(.{1,${helpCharsMax - width - 4}})(?: |$)`, 'g')
  return options
    .map(({ variable, meaning, default: value, serverDefault = value, defaultText }) => {
      const text = `${meaning} (${defaultText ?? serverDefault})`.replaceAll('`', '')
      const lines = [...text.matchAll(lineStart)].map((match) => match[1])
      return `  ${variable?.padEnd(width)}  ${lines.join(`\n${' '.repeat(width + 4)}`)}`
    })
    .join('\n')
}
