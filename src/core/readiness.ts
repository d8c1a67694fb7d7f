import { within } from '../domain/within.ts'
import { PosthornError } from '../errors.ts'

/** How long a question waits for the database at most. */
const waitMsMax = 1_500
const freshMs = 1_000

/** Whether the hub can do its work, asked of the database at most once a second, however many want to know. */
export class Readiness {
  readonly #ready: () => Promise<void>
  #last: { readonly askedAt: number; readonly trouble: Promise<string | undefined> } | undefined

  /** `ready` throws unless it can. */
  constructor(ready: () => Promise<void>) {
    this.#ready = ready
  }

  /** Why not; undefined: it can. */
  trouble(): Promise<string | undefined> {
    const now = performance.now()
    if (this.#last === undefined || now - this.#last.askedAt > freshMs) {
      this.#last = { askedAt: now, trouble: this.#find() }
    }
    return this.#last.trouble
  }

  async #find(): Promise<string | undefined> {
    const late = new PosthornError('DATABASE_UNAVAILABLE', { reason: `it took more than ${waitMsMax} ms` })
    try {
      await within(this.#ready(), waitMsMax, late)
      return undefined
    } catch (error) {
      return error instanceof PosthornError ? error.code.toLowerCase() : 'database_unavailable'
    }
  }
}
