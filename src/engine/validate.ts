import type { Catalogue } from '../domain/catalogue.ts'
import type { EventInput } from '../domain/event.ts'
import { checkEventForm } from '../domain/event-inputs.ts'

/** The event with the payload that the catalogue's schema returns, and with the catalogue's ordering key. */
export async function validate(catalogue: Catalogue, input: EventInput): Promise<EventInput> {
  checkEventForm(input)
  const { type } = input
  if (type == null || type.startsWith('posthorn.')) return input
  const payload = await catalogue.validate(type, input.payload)
  return {
    ...input,
    payload,
    orderingKey: input.orderingKey ?? catalogue.orderingKey(type, payload),
  } as EventInput
}
