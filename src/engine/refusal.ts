import { PosthornError } from '../errors.ts'
import type { Refusal } from './publish.ts'

/** When it is worth trying again: how full queues are is looked at several times a second. */
const retryAfterSeconds = 1

/** What a publisher is told whose event a queue does not take. */
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
