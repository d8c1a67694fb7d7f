import type pg from 'pg'
import { checkDatabaseUrl } from '../db/database-url.ts'
import { quoteSchema } from '../db/identifier.ts'
import type { Catalogue } from '../domain/catalogue.ts'
import { PosthornError } from '../errors.ts'
import { isLogger, type LogOption } from '../observe/log.ts'
import { readCidrs } from '../webhooks/send/cidr.ts'
import { parseVaultKeys } from '../webhooks/send/vault.ts'
import { badSetting, type Setting } from './setting.ts'

type DatabaseAddress = string | pg.PoolConfig | pg.Pool

/** Errors do not show the value: it may hold a password. */
export function databaseAddress({ name, value }: Setting): DatabaseAddress {
  if (typeof value === 'string') return checkDatabaseUrl(value, name)
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  const expected = 'a URL, connection parameters or a pg.Pool'
  throw new PosthornError('BAD_OPTION', { option: name, expected, value: `a ${typeof value}` })
}

export function schemaName({ name, value }: Setting): string {
  quoteSchema(value as string, name)
  return value as string
}

export function catalogue(setting: Setting): Catalogue {
  const { value } = setting
  if (typeof (value as Partial<Catalogue>).validate === 'function') return value as Catalogue
  throw badSetting(setting, 'a catalogue made by defineEvents')
}

/** Checks the form; errors do not show the value. */
export function secretKeys({ name, value }: Setting): string {
  const keys = typeof value === 'string' ? value : ''
  parseVaultKeys(keys, name)
  return keys
}

export function networks({ name, value }: Setting): readonly string[] {
  return readCidrs(name, value as string | readonly string[])
}

const logLevels: readonly string[] = ['silent', 'fatal', 'error', 'warn', 'info', 'debug', 'trace']

export function logOption(setting: Setting): LogOption {
  const { value, isVariable } = setting
  if (typeof value === 'string' ? logLevels.includes(value) : isLogger(value)) return value as LogOption
  const others = isVariable ? '' : ', false or a logger'
  throw badSetting(setting, `one of ${logLevels.join(', ')}${others}`)
}

export function portNumber(setting: Setting): number {
  const { value } = setting
  if (/^\d{1,5}$/.test(String(value)) && Number(value) <= 65_535) return Number(value)
  throw badSetting(setting, 'a port from 0 to 65535')
}

export const allRoles = ['api', 'dispatcher', 'upkeep'] as const
export type Role = (typeof allRoles)[number]

export function roles(setting: Setting): readonly Role[] {
  const asked = String(setting.value)
    .split(',')
    .map((role) => role.trim())
  const unknown = asked.find((role) => !allRoles.some((known) => known === role))
  if (unknown === undefined) return allRoles.filter((role) => asked.includes(role))
  throw badSetting({ ...setting, value: unknown || 'nothing' }, `a list of ${allRoles.join(', ')}`)
}

/** For values that the code which uses them checks. */
export function anyText({ value }: Setting): string {
  return String(value)
}
