#!/usr/bin/env node
import { badOption } from './arguments.ts'
import { type Command, type Out, readManifest } from './command.ts'
import { describeFailure } from './describe-failure.ts'

/** Each command is loaded when it is used, so that help is quick. */
const commands: Readonly<Record<string, () => Promise<Command>>> = {
  serve: async () => (await import('./serve.ts')).serve,
  publish: async () => (await import('./publish.ts')).publish,
  listen: async () => (await import('./listen.ts')).listen,
  keys: async () => (await import('./keys.ts')).keys,
  migrate: async () => (await import('./migrate.ts')).migrate,
  prune: async () => (await import('./prune.ts')).prune,
  storage: async () => (await import('./storage.ts')).storage,
  doctor: async () => (await import('./doctor.ts')).doctor,
}

const help = `posthorn: a durable event hub on PostgreSQL

  posthorn serve      run the API and its upkeep until SIGTERM; the default
  posthorn publish    publish an event to a running server
  posthorn listen     show events as they come, and forward them to a webhook receiver
  posthorn keys       create, list and revoke API keys
  posthorn migrate    bring the database's schema up to date
  posthorn prune      remove what is older than it need be kept
  posthorn storage    show how much each table holds, and how long it is kept
  posthorn doctor     check this machine, the database and the settings
  posthorn help       show this; posthorn <command> --help shows more

It uses the database that DATABASE_URL names, else a PostgreSQL of its own in POSTHORN_DATA_DIR (./posthorn-data).
Exit codes: 0 for success, 1 for an error, 2 for wrong usage.`

const out: Out = (line) => void process.stdout.write(`${line}\n`)
/** The reader of our output may have gone. That is no reason to stop. */
process.stdout.on('error', () => undefined)

async function main([name = 'serve', ...args]: readonly string[]): Promise<number> {
  if (name === '--version' || name === '-v') {
    out(readManifest().version)
    return 0
  }
  if (isHelp(name)) return showHelp(args[0])
  const command = await load(name)
  const ended = args.indexOf('--')
  if (args.slice(0, ended < 0 ? args.length : ended).some((arg) => arg === '--help' || arg === '-h')) {
    return showHelp(name)
  }
  return command.run(args, out)
}

async function showHelp(name: string | undefined): Promise<number> {
  out(name === undefined || isHelp(name) ? help : (await load(name)).help)
  return 0
}

function isHelp(name: string): boolean {
  return name === 'help' || name === '--help' || name === '-h'
}

async function load(name: string): Promise<Command> {
  const loadCommand = Object.hasOwn(commands, name) ? commands[name] : undefined
  if (loadCommand !== undefined) return loadCommand()
  throw badOption('the command', `one of ${Object.keys(commands).join(', ')} and help`, name)
}

/** The process ends by itself. If something keeps it alive, it is ended after a second, so that output can be written. */
function end(code: number): void {
  process.exitCode = code
  setTimeout(() => process.exit(code), 1_000).unref()
}

main(process.argv.slice(2)).then(end, (error: unknown) => {
  const { text, code } = describeFailure(error)
  process.stderr.write(`${text}\n`)
  end(code)
})
