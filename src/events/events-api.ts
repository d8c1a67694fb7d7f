import type { Core } from '../core/core.ts'
import { checkOptions } from '../domain/known-names.ts'
import { readReason } from '../domain/text.ts'
import type { Admitter } from '../engine/admit.ts'
import { type Cancelled, cancelEvents } from '../engine/cancel.ts'
import * as eventTypes from './event-type.ts'
import { type EventDetails, getEvent } from './get-event.ts'
import {
  type EventFilter,
  type EventPage,
  listEvents,
  listUnfinished,
  type UnfinishedPage,
} from './list-events.ts'
import { type PayloadSearch, type PayloadSearchPage, searchPayload } from './search-payload.ts'

/** What a hub tells of events, and what it lets one say of their types. */
export interface EventsApi {
  /** An event with its status, its deliveries and, if asked for, its log; undefined if there is none. */
  event(id: number, options?: { readonly logs?: boolean }): Promise<EventDetails | undefined>
  listEvents(filter?: EventFilter): Promise<EventPage>
  /** The ids of events that match and are not finished: those that can be cancelled. */
  listUnfinished(filter: EventFilter): Promise<UnfinishedPage>
  /** Events whose payload has certain values at certain paths, looked for within bounds. */
  searchPayloads(search: PayloadSearch): Promise<PayloadSearchPage>
  /**
   * Cancels the waiting deliveries of these events. Deliveries under way are told by heartbeat, and are not tried again.
   * Throws CANCEL_UNFINISHED, to be called again, if some of them kept moving.
   */
  cancel(eventIds: readonly number[], reason?: string): Promise<Cancelled[]>
  /** Says how long events of a type live and whether somebody must want them; an option left out is the default. */
  defineType(type: string, options?: eventTypes.EventTypeOptions): Promise<eventTypes.EventType>
  /** Events of the type that are published from now on are like any other. */
  deleteType(type: string): Promise<void>
  types(): Promise<eventTypes.EventType[]>
}

export function createEventsApi({ db }: Pick<Core, 'db'>, admitter: Admitter): EventsApi {
  return {
    event: async (id, options = {}) => {
      checkOptions(options, { logs: true }, 'event')
      const { logs = false } = options
      return getEvent(db, { id, logs: logs ? 'with' : 'without' })
    },
    listEvents: (filter) => listEvents(db, filter),
    listUnfinished: (filter) => listUnfinished(db, filter),
    searchPayloads: (search) => searchPayload(db, search),
    cancel: async (eventIds, reason = 'cancelled') =>
      cancelEvents(db, admitter, { eventIds, subscription: null, reason: readReason(reason) }),
    defineType: (type, options = {}) => eventTypes.upsertEventType(db, type, options),
    deleteType: (type) => eventTypes.deleteEventType(db, type),
    types: () => eventTypes.listEventTypes(db),
  }
}
