import type { Core } from '../core/core.ts'
import { Loop } from '../core/loop.ts'
import { touchHandlers } from '../subscriptions/subscriptions.ts'

export interface PresenceNeeds {
  readonly handlers: {
    /** The subscriptions that this process has handlers for, by number. */
    readonly handled: readonly number[]
    refreshSoon(): void
  }
  readonly pull: { tellWorkers(): Promise<void> }
  readonly unknownLeases: { look(): Promise<void> }
}

type PresenceCore = Pick<Core, 'db' | 'identity' | 'trouble'>

/** Every ten seconds: tells that this process and its remote workers live, and looks for changes that it has not heard of. */
export function createPresence(
  { db, identity, trouble }: PresenceCore,
  { handlers, pull, unknownLeases }: PresenceNeeds,
): Loop {
  return new Loop({
    name: 'worker heartbeat',
    everyMs: 10_000,
    trouble,
    step: async () => {
      await identity.register()
      const { handled } = handlers
      if (handled.length > 0) await touchHandlers(db, handled)
      handlers.refreshSoon()
      await pull.tellWorkers()
      await unknownLeases.look()
      return false
    },
  })
}
