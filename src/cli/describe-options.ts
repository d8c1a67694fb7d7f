import type { Option } from '../options/setting.ts'

const lineCharsMax = 120

/** A line or more for each variable: its name, what it means, and its default in brackets. */
export function describeVariables(...tables: readonly Readonly<Record<string, Option<unknown>>>[]): string {
  const options = tables.flatMap((table) => Object.values(table)).filter(hasVariable)
  const width = Math.max(...options.map(({ variable }) => variable.length))
  return options
    .map(({ variable, meaning, default: value, serverDefault = value, defaultText }) => {
      const text = `${meaning} (${defaultText ?? serverDefault})`.replaceAll('`', '')
      const [first, ...rest] = wrap(text, lineCharsMax - width - 4)
      const lines = [`  ${variable.padEnd(width)}  ${first}`]
      return [...lines, ...rest.map((line) => ' '.repeat(width + 4) + line)].join('\n')
    })
    .join('\n')
}

function hasVariable(option: Option<unknown>): option is Option<unknown> & { readonly variable: string } {
  return option.variable !== null
}

function wrap(text: string, charsMax: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > charsMax) {
      lines.push(line)
      line = word
    } else {
      line = line === '' ? word : `${line} ${word}`
    }
  }
  return [...lines, line]
}
