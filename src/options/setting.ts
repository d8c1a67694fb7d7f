import { integer } from '../domain/subscription.ts'
import { toDetail } from '../domain/text.ts'
import { PosthornError } from '../errors.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** A value that somebody set, and the name they set it by: errors call the setting by that name. */
export interface Setting {
  readonly name: string
  readonly value: unknown
  /** Variables hold numbers and flags as text. */
  readonly isVariable: boolean
}

/** Gives the value that a setting means, or throws BAD_OPTION with the setting's name. */
type Check<Value> = (setting: Setting) => Value

/** A row of the table of options. */
export interface Option<Value> {
  /** The environment variable; null where only code can set the option. */
  readonly variable: string | null
  readonly check: Check<Value>
  readonly default: Value
  /** Where `posthorn serve` has another default. */
  readonly serverDefault?: Value
  /** How to show the default, where its value does not explain itself. */
  readonly defaultText?: string
  /** In Markdown, without a full stop: for the reference, for editors and for `posthorn serve --help`. */
  readonly meaning: string
  /** Values that only code can give. */
  readonly alsoInLibrary?: string
  /** A link, for the reference. */
  readonly seeAlso?: string
}

/** What an option means for a hub that was given this value and runs in this environment. */
export function readOption<Value>(
  name: string,
  option: Option<Value>,
  given: unknown,
  env: Environment,
): Value {
  const setting = findSetting(name, option, given, env)
  return setting === undefined ? option.default : option.check(setting)
}

/** An option goes before its variable. A variable that is set to nothing counts as not set. */
function findSetting(
  name: string,
  { variable }: Option<unknown>,
  given: unknown,
  env: Environment,
): Setting | undefined {
  if (given !== undefined && given !== null) return { name, value: given, isVariable: false }
  const value = variable === null ? undefined : env[variable]
  if (variable === null || value === undefined || value === '') return undefined
  return { name: variable, value, isVariable: true }
}

export function badSetting({ name, value }: Setting, expected: string): PosthornError {
  return new PosthornError('BAD_OPTION', { option: name, expected, value: toDetail(value) })
}

export function wholeNumber(min: number, max: number): Check<number> {
  return ({ name, value, isVariable }) => {
    const isNumeral = isVariable && typeof value === 'string' && /^\d{1,15}$/.test(value.trim())
    return integer(name, isNumeral ? Number(value) : value, min, max)
  }
}

export function flag(setting: Setting): boolean {
  const { value, isVariable } = setting
  if (typeof value === 'boolean') return value
  if (isVariable && value === 'true') return true
  if (isVariable && value === 'false') return false
  throw badSetting(setting, 'true or false')
}

export function text(setting: Setting): string {
  const { value } = setting
  if (typeof value === 'string' && value.length > 0 && value.length <= 255) return value
  throw badSetting(setting, '1 to 255 characters')
}
