import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type pg from 'pg'
import type { DatabaseLog, Listening, NotificationListener } from './database.ts'
import { quoteIdentifier } from './identifier.ts'

interface ListenerOptions {
  readonly channel: string
  readonly listener: NotificationListener
  newClient(): pg.Client
  /** Notifies a channel from another connection than the listener's. */
  notify(channel: string): Promise<void>
  readonly log: DatabaseLog
  /** How often to ask whether the connection still lives. Default 10,000. */
  readonly healthIntervalMs?: number
}

const probeWaitMs = 2_000
const healthTimeoutMs = 3_000
const backoffMsMin = 50
const backoffMsMax = 5_000
const closeWaitMs = 500

/**
 * Keeps one connection listening until it is stopped. Notifications only make things fast: the caller polls anyway, and
 * `onGap` says when notifications may have been missed.
 */
export class Listener implements Listening {
  /** Resolves when the first attempt to listen has succeeded or failed. Later attempts follow by themselves. */
  readonly started: Promise<void>
  readonly #options: ListenerOptions
  readonly #stopping = new AbortController()
  readonly #loop: Promise<void>
  #failures = 0
  #hasWarned = false

  constructor(options: ListenerOptions) {
    this.#options = options
    let onAttempted: () => void = () => undefined
    this.started = new Promise((resolve) => {
      onAttempted = resolve
    })
    this.#loop = this.#keepListening(onAttempted).finally(onAttempted)
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#loop
  }

  async #keepListening(onAttempted: () => void): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      try {
        await this.#listen(onAttempted)
      } catch (error) {
        if (signal.aborted) return
        // Only the first failure in a row: an outage should not fill the log.
        if (this.#failures === 0)
          this.#log.warn({ err: error }, 'Listening for notifications was interrupted')
      }
      onAttempted()
      await delay(backoffMs(this.#failures++), undefined, { signal }).catch(() => undefined)
    }
  }

  /** Ends only by throwing: when the connection is lost, or stop() is called. */
  async #listen(onListening: () => void): Promise<never> {
    const { channel, listener, newClient, healthIntervalMs = 10_000 } = this.#options
    const client = newClient()
    const over = new AbortController()
    const lost = lossOf(client, this.#stopping.signal, over.signal)
    try {
      await Promise.race([client.connect(), lost])
      client.on('notification', (message) => {
        if (message.channel === channel) this.#call(() => listener.onNotify(message.payload ?? ''))
      })
      await query(client, lost, `listen ${quoteIdentifier(channel)}`)
      this.#call(() => listener.onGap())
      onListening()
      await this.#probe(client, lost)
      if (this.#failures > 0) this.#log.info({ channel }, 'Listening for notifications again')
      this.#failures = 0
      for (;;) {
        await Promise.race([delay(healthIntervalMs, undefined, { signal: over.signal }), lost])
        await query(client, lost, 'select 1')
      }
    } finally {
      over.abort()
      await closeClient(client)
    }
  }

  /**
   * Behind a pooler in transaction mode LISTEN succeeds, but no notification ever arrives. The probe must come from
   * another connection: a pooler does pass on notifications that arrive while it answers our own statement.
   */
  async #probe(client: pg.Client, lost: Promise<never>): Promise<void> {
    const probe = `posthorn_probe_${randomBytes(8).toString('hex')}`
    const heard = new Promise<void>((resolve) => {
      client.on('notification', ({ channel }) => channel === probe && resolve())
    })
    await query(client, lost, `listen ${probe}`)
    const waited = new AbortController()
    try {
      await Promise.race([this.#options.notify(probe), lost])
      const silence = delay(probeWaitMs, 'silence', { signal: waited.signal })
      if ((await Promise.race([heard, silence, lost])) === 'silence') this.#goOnPolling()
      else await query(client, lost, `unlisten ${probe}`)
    } finally {
      waited.abort()
    }
  }

  #goOnPolling(): void {
    if (!this.#hasWarned) {
      const message =
        'No notifications arrive, as behind PgBouncer in transaction mode: new work is found by polling alone'
      this.#log.warn({ channel: this.#options.channel }, message)
    }
    this.#hasWarned = true
    this.#call(() => this.#options.listener.onGap())
  }

  /** An error of the listener must not end the process. */
  #call(notify: () => void): void {
    if (this.#stopping.signal.aborted) return
    try {
      notify()
    } catch (error) {
      this.#log.warn({ err: error }, 'A notification listener threw')
    }
  }

  get #log(): DatabaseLog {
    return this.#options.log
  }
}

/** Rejects when the connection is lost or the listener is stopped, whichever comes first. */
function lossOf(client: pg.Client, stopping: AbortSignal, over: AbortSignal): Promise<never> {
  const lost = new Promise<never>((_, reject) => {
    client.on('error', reject)
    client.on('end', () => reject(new Error('The connection ended')))
    stopping.addEventListener('abort', () => reject(stopping.reason), { signal: over })
  })
  // The connection may be lost while nothing awaits this promise; the next wait notices.
  lost.catch(() => undefined)
  return lost
}

async function query(client: pg.Client, lost: Promise<never>, text: string): Promise<void> {
  const config = { text, query_timeout: healthTimeoutMs }
  await Promise.race([client.query(config), lost])
}

/** Says goodbye to the server, and cuts the connection if the server does not answer. */
async function closeClient(client: pg.Client): Promise<void> {
  const cut = setTimeout(() => client.connection.stream.destroy(), closeWaitMs)
  await client.end()
  clearTimeout(cut)
}

function backoffMs(failures: number): number {
  const ceiling = Math.min(backoffMsMax, backoffMsMin * 2 ** Math.min(failures, 10))
  return ceiling * (0.5 + Math.random() / 2)
}
