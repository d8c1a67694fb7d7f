import type { Listening } from '../db/database.ts'
import type { Core } from './core.ts'

/** Turns notifications of other processes into signals of this one. */
export function createNotices({ db, channel, processId, signals }: Core) {
  let listening: Listening | undefined
  return {
    async start(): Promise<void> {
      listening ??= await db.listen(channel, {
        onNotify: (from) => {
          if (from === 'subscribers') signals.emit('subscriptionsChanged')
          else if (from === 'cancelled') signals.emit('deliveriesCancelled')
          else if (from !== processId) signals.emit('wake')
        },
        onGap: () => {
          signals.emit('noticesMissed')
          signals.emit('subscriptionsChanged')
          signals.emit('wake')
        },
      })
    },
    stop: async (): Promise<void> => listening?.stop(),
  }
}
