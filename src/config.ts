import { checkOptions } from './domain/known-names.ts'
import type { Role } from './options/checks.ts'
import type { PosthornOptions } from './options/posthorn-options.ts'
import { type Environment, type Option, readOption, wholeNumber } from './options/setting.ts'
import { callerOptions, hubOptions, pollMsMax, serverOptions } from './options/table.ts'

export type { PosthornOptions, Role }

type Table = Readonly<Record<string, Option<unknown>>>

type ValuesOf<T extends Table> = {
  readonly [Name in keyof T]: ReturnType<T[Name]['check']> | T[Name]['default']
}

/** Every option of the library, checked, or its default. */
export type Config = ValuesOf<typeof hubOptions>

/** The settings of `posthorn serve`. */
export type ServerConfig = Config & ValuesOf<typeof serverOptions>

/** Where `posthorn publish` and `posthorn listen` find the server. */
type CallerConfig = ValuesOf<typeof callerOptions>

export function readConfig(options: PosthornOptions, env: Environment = process.env): Config {
  checkOptions(options, hubOptions, 'createPosthorn')
  // An application without a DATABASE_URL of its own may pass on an empty text.
  const given = options.database === '' ? { ...options, database: undefined } : options
  const config = readTable(hubOptions, given, env)
  return Object.freeze({ ...config, idlePollMs: readIdlePollMs(config, given, env) })
}

/** An idle process must not poll more often than a busy one. */
function readIdlePollMs({ pollMs, idlePollMs }: Config, given: PosthornOptions, env: Environment): number {
  const option = {
    ...hubOptions.idlePollMs,
    check: wholeNumber(pollMs, pollMsMax),
    default: Math.max(pollMs, idlePollMs),
  }
  return readOption('idlePollMs', option, given.idlePollMs, env)
}

export function readServerConfig(env: Environment = process.env): ServerConfig {
  const server = readTable(serverOptions, {}, env)
  const { roles } = server
  const { log: logRow } = hubOptions
  const log = readOption('log', { ...logRow, default: logRow.serverDefault }, undefined, env)
  const given = { log, upkeep: roles.includes('upkeep'), dispatcher: roles.includes('dispatcher') }
  return Object.freeze({ ...readConfig(given, env), ...server })
}

export function readCallerConfig(env: Environment = process.env): CallerConfig {
  return readTable(callerOptions, {}, env)
}

/** The port of the server that a command calls. */
export function readPort(env: Environment = process.env): number {
  return readOption('port', serverOptions.port, undefined, env)
}

function readTable<T extends Table>(
  table: T,
  given: { readonly [Name in keyof T]?: unknown },
  env: Environment,
): ValuesOf<T> {
  const values: Record<string, unknown> = {}
  for (const [name, option] of Object.entries(table)) {
    values[name] = readOption(name, option, given[name], env)
  }
  return values as ValuesOf<T>
}

/** For the errors of commands: some people try a variable as an argument first. */
export const serverVariables = [...variablesOf(serverOptions), ...variablesOf(hubOptions)]
export const callerVariables = [...variablesOf(callerOptions), serverOptions.port.variable]
export const databaseVariables = [
  hubOptions.database.variable,
  hubOptions.dataDirectory.variable,
  hubOptions.schema.variable,
]
export const retentionVariables = [
  hubOptions.keepFinishedMs.variable,
  hubOptions.keepAuditMs.variable,
  hubOptions.keepDeadLettersMs.variable,
  hubOptions.archiveDirectory.variable,
]

function variablesOf(table: Table): string[] {
  return Object.values(table).flatMap(({ variable }) => (variable === null ? [] : [variable]))
}
