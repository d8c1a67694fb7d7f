/** The state of one delivery. `finalized`: its consumer ended it with errors. */
export type DeliveryState =
  | 'waiting'
  | 'leased'
  | 'completed'
  | 'buried'
  | 'finalized'
  | 'expired'
  | 'cancelled'

export const eventStatuses = [
  'PENDING',
  'PROCESSING',
  'COMPLETED',
  'FAILED',
  'COMPLETED_WITH_ERRORS',
  'EXPIRED',
  'CANCELLED',
] as const

export type EventStatus = (typeof eventStatuses)[number]

/** The statuses of an event while one of its deliveries waits or is leased. */
export const unfinishedStatuses = ['PENDING', 'PROCESSING'] as const satisfies readonly EventStatus[]

interface DeliveryStates {
  readonly states: readonly DeliveryState[]
  /** The event had to match a subscription and matched none, and nobody has retried it. */
  readonly unwanted: boolean
}

/** The status of an event. The SQL function event_status has the same rule, for lists; a test compares the two. */
export function eventStatus({ states, unwanted }: DeliveryStates): EventStatus {
  if (states.includes('leased')) return 'PROCESSING'
  if (states.includes('waiting')) return 'PENDING'
  if (states.length === 0) return unwanted ? 'FAILED' : 'COMPLETED'
  const ended = states.filter((state) => state !== 'cancelled')
  if (ended.length === 0) return 'CANCELLED'
  if (ended.every((state) => state === 'completed')) return 'COMPLETED'
  if (ended.every((state) => state === 'expired')) return 'EXPIRED'
  const reached = ended.some((state) => state === 'completed' || state === 'finalized')
  return reached ? 'COMPLETED_WITH_ERRORS' : 'FAILED'
}
