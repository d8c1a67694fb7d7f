import { z } from 'zod'
import { answerObject, listedEvent, time } from './schemas.ts'

const listTotal = z
  .int()
  .describe('Exact up to 10,000 without a filter and up to 1,000 with one, as far as the call came.')
/** What a list says of itself that does bounded work per call. */
export const searchedList = {
  total: listTotal,
  total_is_estimate: z.literal(true).optional(),
  limit: z.int(),
  offset: z.int(),
  next_cursor: z
    .string()
    .optional()
    .describe('For the next page. A page may have less than `limit` and be followed by others.'),
  searched_to: time
    .optional()
    .describe('Only where the page is short because the call ended early: it has searched up to this time.'),
}
export const eventList = answerObject('EventList', {
  events: z.array(listedEvent),
  ...searchedList,
  total: listTotal.optional().describe('Not given where payloads were searched.'),
  searched: z
    .object({ events: z.int(), from: time.nullable(), to: time.nullable(), complete: z.boolean() })
    .optional()
    .describe('How far payloads were searched.'),
})
