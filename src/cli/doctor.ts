import { environmentVariables, readConfig, readServerConfig } from '../config.ts'
import { readArguments } from './arguments.ts'
import type { Command, Out } from './command.ts'

/** What one look found. A warning is worth knowing; a failure is in the way. */
export interface Finding {
  readonly check: string
  readonly state: 'ok' | 'warn' | 'fail'
  readonly says: string
  /** What to do about it. */
  readonly fix?: string
}

const help = `posthorn doctor [--json]

Looks at this machine, the database and the settings as posthorn serve would use them, and says what to do about what is
not right. Changes nothing. Exit code 1 if anything has failed.

  --json   the findings as JSON

Environment: as for posthorn serve, which may be running meanwhile.`

export const doctor: Command = {
  help,
  async run(args, out) {
    const { options } = readArguments(args, { known: { json: 'boolean' }, variables: environmentVariables })
    const server = readServerConfig()
    const { dataDirectory, database, poolMax } = readConfig({})
    const { checkDatabase, checkDirectory } = await import('./check-database.ts')
    const { checkNode, checkPort } = await import('./check-machine.ts')
    const findings = [checkNode()]
    if (database === undefined) findings.push(await checkDirectory(dataDirectory))
    findings.push(...(await checkDatabase({ ...server, dataDirectory, poolMax })))
    if (server.roles.includes('api')) findings.push(await checkPort(server))
    const hasFailed = findings.some(({ state }) => state === 'fail')
    if (options.json === undefined) print(findings, out)
    else out(JSON.stringify({ ok: !hasFailed, checks: findings }, null, 2))
    return hasFailed ? 1 : 0
  },
}

function print(findings: readonly Finding[], out: Out): void {
  const width = Math.max(...findings.map(({ check }) => check.length))
  for (const { check, state, says, fix } of findings) {
    out(`${state.padEnd(4)}  ${check.padEnd(width)}  ${says}`)
    if (fix !== undefined) out(`${' '.repeat(width + 8)}fix: ${fix}`)
  }
}
