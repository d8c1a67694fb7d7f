import { expect, test } from 'vitest'
import { readConfig, readServerConfig } from '../../src/config.ts'
import type { Option } from '../../src/options/setting.ts'
import { hubOptions } from '../../src/options/table.ts'

const settings = [
  ['database', 'DATABASE_URL', 'mysql://db/hub', 'db'],
  ['pollMs', 'POLL_INTERVAL_MS', 'often', 0],
  ['webhookTimeoutMs', 'WEBHOOK_TIMEOUT_MS', '-1', 5],
  ['batchSize', 'BATCH_SIZE', '20.5', 1_001],
  ['dataDirectory', 'POSTHORN_DATA_DIR', 'x'.repeat(256), ''],
  ['schema', 'POSTHORN_SCHEMA', 'Bad-Name', 'pg_own'],
  ['shard', 'POSTHORN_SHARD', '1024', -1],
  ['requireRoute', 'POSTHORN_REQUIRE_ROUTE', '1', 1],
  ['workerId', 'POSTHORN_WORKER_ID', 'x'.repeat(256), ''],
  ['idlePollMs', 'POSTHORN_IDLE_POLL_MS', '99', 60_001],
  ['statementTimeoutMs', 'POSTHORN_STATEMENT_TIMEOUT_MS', '99', 3_600_001],
  ['overdueAfterMs', 'POSTHORN_OVERDUE_AFTER_MS', '999', 1.5],
  ['poolMax', 'POSTHORN_POOL_MAX', 'many', 1],
  ['prepared', 'POSTHORN_PREPARED', 'perhaps', 5],
  ['migrate', 'POSTHORN_MIGRATE', 'later', 5],
  ['secretKey', 'POSTHORN_SECRET_KEY', 'hunter2', 'hunter2'],
  ['allowCidrs', 'POSTHORN_ALLOW_CIDRS', '10.0.0.0/33', ['nowhere']],
  ['log', 'LOG_LEVEL', 'loud', 'loud'],
  ['keepFinishedMs', 'POSTHORN_KEEP_FINISHED_MS', '1e3', -1],
  ['keepAuditMs', 'POSTHORN_KEEP_AUDIT_MS', '86399999', 0],
  ['keepDeadLettersMs', 'POSTHORN_KEEP_DEAD_LETTERS_MS', 'ever', -1],
  ['archiveDirectory', 'POSTHORN_ARCHIVE_DIR', 'x'.repeat(256), ''],
] as const

test.each(settings)('an error about %s names %s where that was set', (option, variable, text, value) => {
  expect(() => readConfig({}, { [variable]: text })).toThrow(`Expected ${variable} to be `)
  expect(() => readConfig({ [option]: value }, {})).toThrow(`Expected ${option} to be `)
  // The option goes before the variable, which is then not even looked at.
  expect(() => readConfig({ [option]: value }, { [variable]: text })).toThrow(`Expected ${option} to be `)
})

test('that holds for every option that has a variable', () => {
  const named = settings.map(([option, variable]) => `${option} ${variable}`)
  const table: Readonly<Record<string, Option<unknown>>> = hubOptions
  const all = Object.keys(table).filter((name) => table[name]?.variable !== null)
  expect(named.sort()).toEqual(all.map((name) => `${name} ${table[name]?.variable}`).sort())
})

test('a number in a variable is read as one, with the value that was set in the error', () => {
  expect(readConfig({}, { BATCH_SIZE: ' 7 ', POLL_INTERVAL_MS: '' })).toMatchObject({
    batchSize: 7,
    pollMs: 100,
  })
  expect(() => readConfig({}, { POLL_INTERVAL_MS: 'often' })).toThrow(/, got often\.$/)
})

test('an option that holds a number or a flag as text is refused', () => {
  expect(() => readConfig({ pollMs: '5' as never }, {})).toThrow(/^Expected pollMs to be .*, got 5\.$/)
  expect(() => readConfig({ migrate: 'false' as never }, {})).toThrow(/^Expected migrate to be /)
})

test('the variables of schema, pool, prepared statements and migrations are not ignored', () => {
  const env = {
    POSTHORN_SCHEMA: 'shop',
    POSTHORN_POOL_MAX: '7',
    POSTHORN_PREPARED: 'false',
    POSTHORN_MIGRATE: 'false',
  }
  const set = { schema: 'shop', poolMax: 7, prepared: false, migrate: false }
  expect(readConfig({}, env)).toMatchObject(set)
  const options = { schema: 'own', poolMax: 9, prepared: true, migrate: true }
  expect(readConfig(options, env)).toMatchObject(options)
  const unset = { POSTHORN_SCHEMA: '', POSTHORN_POOL_MAX: '', POSTHORN_PREPARED: '', POSTHORN_MIGRATE: '' }
  const usual = { schema: 'posthorn', poolMax: 20, prepared: true, migrate: true }
  expect(readConfig({}, unset)).toMatchObject(usual)
})

test('polling when idle is never more frequent than polling while busy', () => {
  expect(readConfig({ pollMs: 5_000 }, {}).idlePollMs).toBe(5_000)
  expect(readConfig({}, { POLL_INTERVAL_MS: '50', POSTHORN_IDLE_POLL_MS: '50' }).idlePollMs).toBe(50)
  expect(() => readConfig({ pollMs: 500, idlePollMs: 499 }, {})).toThrow('Expected idlePollMs to be ')
})

test('a server logs more than the library, and does what its roles say', () => {
  expect(readConfig({}, {}).log).toBe('warn')
  expect(readServerConfig({})).toMatchObject({ log: 'info', upkeep: true, dispatcher: true, port: 8080 })
  const env = { LOG_LEVEL: 'debug', POSTHORN_ROLES: 'api, upkeep', POSTHORN_SHARD: '3', PORT: '0' }
  const set = { log: 'debug', roles: ['api', 'upkeep'], dispatcher: false, upkeep: true, shard: 3, port: 0 }
  expect(readServerConfig(env)).toMatchObject(set)
  expect(() => readServerConfig({ PORT: '65536' })).toThrow('Expected PORT to be a port from 0 to 65535')
  expect(() => readServerConfig({ POSTHORN_ROLES: 'cook' })).toThrow('Expected POSTHORN_ROLES to be ')
})
