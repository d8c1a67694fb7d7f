import { toDetail } from '../../domain/text.ts'
import { PosthornError } from '../../errors.ts'
import { parseCidr } from './address-policy.ts'

/** Networks, with commas between them or as a list. Errors call them by the name that they were set by. */
export function readCidrs(name: string, value: string | readonly string[]): string[] {
  const list: unknown = typeof value === 'string' ? value.split(',') : value
  if (!Array.isArray(list)) throw badCidrs(name, value)
  return list
    .map((cidr) => checkedText(name, cidr))
    .map((cidr) => cidr.trim())
    .filter((cidr) => cidr !== '')
    .map((cidr) => checkedCidr(name, cidr))
}

function checkedCidr(option: string, value: string): string {
  try {
    parseCidr(value)
    return value
  } catch {
    throw badCidrs(option, value)
  }
}

function checkedText(option: string, value: unknown): string {
  if (typeof value === 'string') return value
  throw badCidrs(option, value)
}

function badCidrs(option: string, value: unknown): PosthornError {
  const expected = 'networks such as 10.0.0.0/8, separated by commas'
  return new PosthornError('BAD_OPTION', { option, expected, value: toDetail(value) })
}
