import { PosthornError } from '../errors.ts'
import { badEvent, badOption } from './bad-value.ts'

/** Checks the list of events of a call. Used by clients too, which run without Node. */
export function checkEventList(events: unknown): void {
  if (Array.isArray(events)) return
  throw badOption('events', 'a list of events', events)
}

export function checkEventForm(event: unknown): void {
  if (typeof event === 'object' && event !== null && !Array.isArray(event)) return
  throw badEvent(theEvent, 'an object', event)
}

/** The field of an error that concerns the whole event. */
const theEvent = 'the event'

/** Reads each event of a list, holes too; an error names the place of its event. */
export async function readEach<Input, Event>(
  inputs: readonly Input[],
  readOne: (input: Input) => Event | Promise<Event>,
): Promise<Event[]> {
  const events: Event[] = []
  for (const [place, input] of inputs.entries()) {
    try {
      const event = readOne(input)
      // Waiting for each of thousands of events that are already read would cost more than reading them.
      events.push(event instanceof Promise ? await event : event)
    } catch (error) {
      throw withPlace(`events[${place}]`, error)
    }
  }
  return events
}

/** Adds the place in the batch to the field of an error. */
export function atPlace<T>(place: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw withPlace(place, error)
  }
}

function withPlace(place: string, error: unknown): unknown {
  if (!(error instanceof PosthornError)) return error
  const { field, ...details } = error.details
  const name = typeof field === 'string' && field !== theEvent ? `${place}.${field}` : place
  return new PosthornError(error.code, { ...details, field: name }, { cause: error.cause })
}
