import { PosthornError } from '../errors.ts'
import { parseCidr } from './address-policy.ts'

/** Networks, with commas between them or as a list. */
export function readCidrs(value: string | readonly string[]): string[] {
  const list = typeof value === 'string' ? value.split(',') : value
  return list
    .map((cidr) => cidr.trim())
    .filter((cidr) => cidr !== '')
    .map(checkedCidr)
}

function checkedCidr(value: string): string {
  try {
    parseCidr(value)
    return value
  } catch {
    const expected = 'networks such as 10.0.0.0/8, separated by commas'
    throw new PosthornError('BAD_OPTION', { option: 'POSTHORN_ALLOW_CIDRS', expected, value })
  }
}
