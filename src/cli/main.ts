#!/usr/bin/env node
import { PosthornError } from '../errors.ts'
import { serve } from './serve.ts'

const commands: Record<string, () => Promise<void>> = { serve }
const name = process.argv[2] ?? 'serve'

const help = `posthorn: a durable event hub on PostgreSQL

  posthorn serve    run the hub and its upkeep until SIGTERM (the default)
  posthorn help     show this

Environment: DATABASE_URL (else an embedded PostgreSQL), POSTHORN_DATA_DIR (./posthorn-data), LOG_LEVEL.
`

async function main(): Promise<void> {
  if (name === 'help' || name === '--help' || name === '-h') {
    process.stdout.write(help)
    return
  }
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined
  if (command === undefined) {
    process.stderr.write(`There is no command ${name}.\n\n${help}`)
    process.exitCode = 2
    return
  }
  await command()
}

main().catch((error: unknown) => {
  const line = error instanceof PosthornError ? `${error.code}: ${error.message}` : (error as Error)
  process.stderr.write(`${line instanceof Error ? line.stack : line}\n`)
  process.exitCode = 1
})
