import { PosthornError } from '../errors.ts'
import type { Refusal } from './publish.ts'

/** Queues are measured several times a second. */
const retryAfterSeconds = 1

/** The error for an event that a queue does not take. */
export function refusalError({ why, queue }: Refusal): PosthornError {
  switch (why) {
    case 'full':
      return new PosthornError('QUEUE_FULL', { queue, retryAfterSeconds })
    case 'draining':
      return new PosthornError('QUEUE_DRAINING', { queue })
    case 'memory':
      return new PosthornError('QUEUE_ELSEWHERE', { queue })
  }
}
