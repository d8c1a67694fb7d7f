/**
 * The words of lists, as the SQL function delivery_status gives them. `failed` has another attempt before it: what has none is
 * in the dead letters. The view `messages` counts what has expired among these (dlq), which lists tell apart.
 */
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
