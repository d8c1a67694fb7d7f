import { PosthornError } from '../errors.ts'
import { badEvent, badOption } from './bad-value.ts'

/** For calls that take many events, in the hub and in clients, which run without Node. */
export function checkEventList(events: unknown): void {
  if (Array.isArray(events)) return
  throw badOption('events', 'a list of events', events)
}

export function checkEventForm(event: unknown): void {
  if (typeof event === 'object' && event !== null && !Array.isArray(event)) return
  throw badEvent(theEvent, 'an object', event)
}

/** Stands for the field where the event as a whole is wrong. */
const theEvent = 'the event'

/** Reads each event of a list, holes included; an error names the place of its event. */
export async function readEach<Input, Event>(
  inputs: readonly Input[],
  readOne: (input: Input) => Event | Promise<Event>,
): Promise<Event[]> {
  const events: Event[] = []
  for (const [place, input] of inputs.entries()) {
    try {
      const event = readOne(input)
      // Waiting for each of thousands that are there already would cost more than reading them.
      events.push(event instanceof Promise ? await event : event)
    } catch (error) {
      throw withPlace(`events[${place}]`, error)
    }
  }
  return events
}

/** In a batch a field is named with its place. */
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
