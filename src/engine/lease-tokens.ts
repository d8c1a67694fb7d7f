import { randomInt } from 'node:crypto'
import type { Database } from '../db/database.ts'
import { findOwnLeasesStatement } from './held-lease-statements.ts'
import { type Release, release } from './release.ts'

const tokensPerStart = 2 ** 24
/** Tokens of runners are below this number, all others above. */
const runnersEnd = 2 ** 47
/** For how long to search for a lease whose answer was lost: its statement may still be running. */
const lostMs = 60_000

/** Random: a counter could be set back by a failover, and an old token be taken for a newer lease. */
export function newToken(): number {
  return runnersEnd + randomInt(1, runnersEnd - 1)
}

/** Whether this process holds the run under this token, or has yet to settle an attempt of it. */
export type KnowsLease = (lease: Release) => boolean

interface LostLease {
  readonly worker: number
  readonly token: number
  readonly lostAt: number
}

/**
 * The tokens under which this start of the process leases for its runner. Each start draws a new first part, since a name such as
 * `host:pid` may be used again or shared. A token is drawn before its statement is sent. So if a run has a token that this
 * process neither holds nor waits for, the answer to its lease never arrived, or it was settled on a server that is gone. All runs
 * of one statement share a token, so a run is known by id and token: otherwise a run under way would hide a lost one. The runner
 * knows a run until each attempt of it is settled, also if the lease was lost: an attempt that has begun is always counted.
 */
export class LeaseTokens {
  readonly #first = randomInt(1, runnersEnd / tokensPerStart) * tokensPerStart
  readonly #underWay = new Set<number>()
  #drawn = randomInt(tokensPerStart)
  /** Leases for pull workers that failed. */
  #lost: LostLease[] = []

  draw(): number {
    this.#drawn = (this.#drawn + 1) % tokensPerStart
    const token = this.#first + this.#drawn
    this.#underWay.add(token)
    return token
  }

  /** The answer has arrived, or will not come. Takes effect at the end of the turn, when the runner holds the runs. */
  arrived(token: number): void {
    setImmediate(() => this.#underWay.delete(token))
  }

  /** A lease for a pull worker failed, perhaps after its commit. */
  lost(worker: number, token: number): void {
    this.#lost.push({ worker, token, lostAt: performance.now() })
  }

  /** Hands back, uncounted, runs that this process leased and does not know of. Returns how many. */
  async handBackUnknown(
    db: Database,
    { worker, known }: { readonly worker: number; readonly known: () => KnowsLease },
  ): Promise<number> {
    this.#lost = this.#lost.filter(({ lostAt }) => performance.now() - lostAt < lostMs)
    const lost = this.#lost
    const values = [
      [worker, ...lost.map((one) => one.worker)],
      this.#first,
      this.#first + tokensPerStart - 1,
      lost.map((one) => one.token),
    ]
    // Ask before and after the statement: a run that was settled since was known before, and a run that was leased just
    // before the statement is known after it.
    const wasKnown = this.#knows(known())
    const rows = await db.run<[runId: number, token: number]>(findOwnLeasesStatement(db), values)
    const isKnown = this.#knows(known())
    const unknown = rows
      .map(([runId, token]) => ({ runId, token }))
      .filter((lease) => !wasKnown(lease) && !isKnown(lease))
    if (unknown.length > 0) await release(db, unknown)
    return unknown.length
  }

  #knows(knows: KnowsLease): KnowsLease {
    const underWay = new Set(this.#underWay)
    return (lease) => underWay.has(lease.token) || knows(lease)
  }
}
