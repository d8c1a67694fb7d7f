import type { Listening } from '../db/database.ts'
import type { Core } from './core.ts'

/** Turns notifications of other processes into signals of this one. */
export class Notices {
  readonly #core: Pick<Core, 'db' | 'channel' | 'processId' | 'signals'>
  #listening: Listening | undefined

  constructor(core: Pick<Core, 'db' | 'channel' | 'processId' | 'signals'>) {
    this.#core = core
  }

  async start(): Promise<void> {
    const { db, channel, processId, signals } = this.#core
    this.#listening ??= await db.listen(channel, {
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
  }

  async stop(): Promise<void> {
    await this.#listening?.stop()
  }
}
