import { PosthornError } from '../errors.ts'
import { toDetail } from './text.ts'

/** Errors for a value that is not as expected. Names and values are cut, since both may come from outside. */

/** For an option of the library or the command line. */
export function badOption(option: string, expected: string, value: unknown): PosthornError {
  return new PosthornError('BAD_OPTION', { option: toDetail(option), expected, value: toDetail(value) })
}

/** For a field of a request. */
export function badField(field: string, expected: string, value: unknown): PosthornError {
  return new PosthornError('BAD_FIELD', { field: toDetail(field), expected, value: toDetail(value) })
}

/** For a field of an event. */
export function badEvent(field: string, expected: string, value: unknown): PosthornError {
  return new PosthornError('BAD_EVENT', { field: toDetail(field), expected, value: toDetail(value) })
}
