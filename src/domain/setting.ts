import { integer } from './subscription.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** What was set, and the name it was set by: errors call it by that name. */
export interface Setting {
  readonly name: string
  readonly value: unknown
  /** Variables hold numbers and flags as text. */
  readonly isVariable: boolean
}

/** An option goes before its variable. A variable that is set to nothing is how many files of settings leave one out. */
export function settingOf(option: string, given: unknown, variable: string, env: Environment): Setting {
  const set = env[variable]
  if (given !== undefined || set === undefined || set === '')
    return { name: option, value: given, isVariable: false }
  return { name: variable, value: set, isVariable: true }
}

export interface WholeRange {
  readonly usual: number
  readonly min: number
  readonly max: number
}

export function wholeSetting({ name, value, isVariable }: Setting, { usual, min, max }: WholeRange): number {
  const isNumeral = isVariable && typeof value === 'string' && /^\d{1,15}$/.test(value.trim())
  return integer(name, isNumeral ? Number(value) : (value ?? usual), min, max)
}
