import { parseArgs } from 'node:util'
import { PosthornError } from '../errors.ts'

/** The arguments that a command takes. */
interface Usage {
  readonly known?: Readonly<Record<string, 'string' | 'boolean'>>
  /** The names of arguments without a name, in their order: `<type>`. */
  readonly places?: readonly string[]
  /** The environment variables that the command reads: some people try these as options first. */
  readonly variables?: readonly string[]
}

interface Arguments {
  /** A switch that was given is the empty text. */
  readonly options: Readonly<Record<string, string | undefined>>
  readonly positionals: readonly string[]
}

/** Not strict: an error of `parseArgs` names the option in its text only. */
export function readArguments(args: readonly string[], usage: Usage): Arguments {
  const { known = {}, places = [] } = usage
  const config = Object.fromEntries(Object.entries(known).map(([name, type]) => [name, { type }]))
  const { tokens } = parseArgs({
    args: [...args],
    options: config,
    strict: false,
    allowPositionals: true,
    tokens: true,
  })
  const options: Record<string, string> = {}
  const positionals: string[] = []
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(token.value)
    if (token.kind !== 'option') continue
    const { name, rawName, value, inlineValue, index } = token
    if (!Object.hasOwn(known, name)) {
      // The value of a long option is not shown: it may be a key.
      const typed = rawName.startsWith('--') ? rawName : args[index]
      throw badOption(rawName, insteadOf(name, usage), typed)
    }
    if (Object.hasOwn(options, name)) throw badOption(rawName, 'given once', value)
    if (known[name] === 'boolean' && value !== undefined) throw badOption(rawName, 'without a value', value)
    const isMissing = value === undefined || (inlineValue === false && value.startsWith('--'))
    if (known[name] === 'string' && (isMissing || value.trim() === '')) {
      throw badOption(rawName, 'followed by a value', value)
    }
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
  return new PosthornError('BAD_OPTION', { option, expected, value: value?.trim() ? value : 'nothing' })
}

/** Does the work. Rules name their fields in errors, but the reader typed options or set variables: the error names those. */
export function namingOptions<T>(names: Readonly<Record<string, string>>, work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw asTyped(error, names)
  }
}

export function asTyped(error: unknown, names: Readonly<Record<string, string>>): unknown {
  if (!(error instanceof PosthornError) || error.code !== 'BAD_OPTION') return error
  const option = names[String(error.details.option)]
  return option === undefined ? error : new PosthornError('BAD_OPTION', { ...error.details, option })
}

/** What somebody who typed an unknown option may have meant. */
function insteadOf(name: string, { known = {}, places = [], variables = [] }: Usage): string {
  const asVariable = name.toUpperCase().replaceAll('-', '_')
  const variable = variables.find((one) => one === asVariable || one === `POSTHORN_${asVariable}`)
  if (variable !== undefined) return `left out: ${variable} sets it`
  const names = Object.keys(known).map((one) => `--${one}`)
  const expected = names.length === 0 ? 'left out' : `one of ${names.join(', ')}`
  // A payload such as -5 looks like an option.
  return places.length === 0 ? expected : `${expected}, or to stand after --`
}
