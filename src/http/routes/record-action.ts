import type { Hub } from '../../hub.ts'
import type { Caller } from '../route.ts'

/** Writes to the admin log before the change is made, so that no change goes unrecorded. */
export function recordAction(
  hub: Hub,
  { name, remote }: Caller,
  { action, target, details = {} }: { action: string; target: string; details?: object },
): Promise<void> {
  return hub.record({ actor: name, action, target, details: { ...details }, remote })
}
