import { readServerConfig, serverVariables } from '../config.ts'
import { readArguments } from './arguments.ts'
import { alignColumns, type Command, type Out } from './command.ts'
import type { Finding } from './finding.ts'

const help = `posthorn doctor [--json]

Checks this machine, the database and the settings as posthorn serve would use them, and says how to fix what is wrong.
Changes nothing. Exit code 1 if any check has failed.

  --json   the findings as JSON

Environment: as for posthorn serve, which may be running meanwhile.`

export const doctor: Command = {
  help,
  async run(args, out) {
    const { options } = readArguments(args, { known: { json: 'boolean' }, variables: serverVariables })
    const config = readServerConfig()
    const { checkDatabase, checkDirectory } = await import('./check-database.ts')
    const { checkNode, checkPort } = await import('./check-machine.ts')
    const findings = [checkNode()]
    if (config.database === undefined) findings.push(await checkDirectory(config.dataDirectory))
    findings.push(...(await checkDatabase(config)))
    if (config.roles.includes('api')) findings.push(await checkPort(config))
    const hasFailed = findings.some(({ state }) => state === 'fail')
    if (options.json === undefined) print(findings, out)
    else out(JSON.stringify({ ok: !hasFailed, checks: findings }, null, 2))
    return hasFailed ? 1 : 0
  },
}

function print(findings: readonly Finding[], out: Out): void {
  const rows = findings.flatMap(({ check, state, says, fix }) => [
    [state, check, says],
    ...(fix === undefined ? [] : [['', '', `fix: ${fix}`]]),
  ])
  for (const line of alignColumns(rows)) out(line)
}
