import { PosthornError } from '../errors.ts'
import { toDetail } from './text.ts'

/** For calls that take many events, in the hub and in clients, which run without Node. */
export function checkEventList(events: unknown): void {
  if (Array.isArray(events)) return
  const expected = 'a list of events'
  throw new PosthornError('BAD_OPTION', { option: 'events', expected, value: toDetail(events) })
}
