/**
 * PostgreSQL array literals. The driver can make them too, element by element with two passes of quoting
 * each; with ten columns of a thousand elements that was a third of a batch's time in this process.
 */

export function numberArray(values: readonly (number | null)[]): string {
  return `{${values.map((value) => value ?? 'null').join(',')}}`
}

export function textArray(values: readonly (string | null)[]): string {
  return `{${values.map(quote).join(',')}}`
}

/** JSON.stringify quotes in the same way, at twice the speed of a replacement, except for control characters. */
function quote(value: string | null): string {
  if (value === null) return 'null'
  return controlCharacter.test(value) ? `"${value.replace(/["\\]/g, '\\$&')}"` : JSON.stringify(value)
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it looks for
const controlCharacter = /[\0-\x1f]/
