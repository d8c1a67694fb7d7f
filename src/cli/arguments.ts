import { parseArgs } from 'node:util'
import { PosthornError } from '../errors.ts'

export interface Arguments {
  /** A switch that was given is the empty text. */
  readonly options: Readonly<Record<string, string | undefined>>
  readonly positionals: readonly string[]
}

/** Not strict: the errors of `parseArgs` do not say which option it was but in their text. */
export function readArguments(
  args: readonly string[],
  known: Readonly<Record<string, 'string' | 'boolean'>>,
  places: readonly string[],
): Arguments {
  const config = Object.fromEntries(Object.entries(known).map(([name, type]) => [name, { type }]))
  const { tokens } = parseArgs({
    ...{ args: [...args], options: config },
    ...{ strict: false, allowPositionals: true, tokens: true },
  })
  const options: Record<string, string> = {}
  const positionals: string[] = []
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(token.value)
    if (token.kind !== 'option') continue
    const { name, rawName, value, inlineValue } = token
    if (!Object.hasOwn(known, name)) throw badOption(rawName, expectedOptions(known), value ?? rawName)
    if (Object.hasOwn(options, name)) throw badOption(rawName, 'given once', value)
    if (known[name] === 'boolean' && value !== undefined) throw badOption(rawName, 'without a value', value)
    const isMissing = value === undefined || (inlineValue === false && value.startsWith('--'))
    if (known[name] === 'string' && isMissing) throw badOption(rawName, 'followed by a value', value)
    options[name] = value ?? ''
  }
  const extra = positionals[places.length]
  if (extra !== undefined) throw badOption('arguments', places.join(' ') || 'options only', extra)
  return { options, positionals }
}

export function required(option: string, value: string | undefined): string {
  if (value === undefined || value === '') throw badOption(option, 'given', value)
  return value
}

export function badOption(option: string, expected: string, value: string | undefined): PosthornError {
  return new PosthornError('BAD_OPTION', { option, expected, value: value || 'nothing' })
}

function expectedOptions(known: object): string {
  const names = Object.keys(known).map((name) => `--${name}`)
  return names.length === 0 ? 'left out' : `one of ${names.join(', ')}`
}
