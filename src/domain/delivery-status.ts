import type { DeliveryState } from './status.ts'

/** The words of the view `messages`; it counts what has expired among the dead letters (dlq), which lists tell apart. */
export const deliveryStatuses = [
  'pending',
  'delivering',
  'delivered',
  'failed',
  'dlq',
  'expired',
  'cancelled',
] as const

export type DeliveryStatus = (typeof deliveryStatuses)[number]

/** `failed` has another attempt before it: what has none is in the dead letters. */
export function deliveryStatus({
  state,
  failures,
}: {
  readonly state: DeliveryState
  readonly failures: number
}): DeliveryStatus {
  switch (state) {
    case 'waiting':
      return failures > 0 ? 'failed' : 'pending'
    case 'leased':
      return 'delivering'
    case 'completed':
      return 'delivered'
    case 'buried':
    case 'finalized':
      return 'dlq'
    default:
      return state
  }
}
