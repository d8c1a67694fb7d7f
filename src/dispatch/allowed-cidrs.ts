import { PosthornError } from '../errors.ts'
import { parseCidr } from './address-policy.ts'

/** Networks, with commas between them or as a list. Errors call them by the name that they were set by. */
export function readCidrs(name: string, value: string | readonly string[]): string[] {
  const list = typeof value === 'string' ? value.split(',') : value
  return list
    .map((cidr) => cidr.trim())
    .filter((cidr) => cidr !== '')
    .map((cidr) => checkedCidr(name, cidr))
}

function checkedCidr(option: string, value: string): string {
  try {
    parseCidr(value)
    return value
  } catch {
    const expected = 'networks such as 10.0.0.0/8, separated by commas'
    throw new PosthornError('BAD_OPTION', { option, expected, value })
  }
}
