import type { Database, Listening } from '../db/database.ts'

export interface NoticesOptions {
  readonly db: Pick<Database, 'listen'>
  readonly channel: string
  /** This process's own notices are not for itself. */
  readonly processId: string
  /** There may be work. */
  readonly work: () => void
  /** A subscription is not what it was. */
  readonly subscribers: () => void
  /** Something that a process holds was cancelled. */
  readonly cancelled: () => void
  /** Some may have been missed, and the server may be another one. */
  readonly gap: () => void
}

/** Hears what is said in other processes. */
export class Notices {
  readonly #options: NoticesOptions
  #listening: Listening | undefined

  constructor(options: NoticesOptions) {
    this.#options = options
  }

  async start(): Promise<void> {
    const { db, channel, processId, work, subscribers, cancelled, gap } = this.#options
    this.#listening ??= await db.listen(channel, {
      onNotify: (from) => {
        if (from === 'subscribers') subscribers()
        else if (from === 'cancelled') cancelled()
        else if (from !== processId) work()
      },
      onGap: () => {
        gap()
        subscribers()
        work()
      },
    })
  }

  async stop(): Promise<void> {
    await this.#listening?.stop()
  }
}
