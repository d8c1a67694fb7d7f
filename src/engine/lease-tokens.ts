import { randomInt } from 'node:crypto'
import { type Database, defineStatement } from '../db/database.ts'
import { type Release, release } from './release.ts'

const tokensPerStart = 2 ** 24
/** Below it are the tokens of runners, above it all others. */
const runnersEnd = 2 ** 47
/** How long a lease is looked for whose answer was lost: the statement may still be at work. */
const lostMs = 60_000

/** Random, so that a counter which a failover set back can't be taken for a newer lease. */
export function newToken(): number {
  return runnersEnd + randomInt(1, runnersEnd - 1)
}

/** Whether this process holds the run under this token, or has not yet settled all that it began of it. */
export type KnowsLease = (lease: Release) => boolean

interface LostLease {
  readonly worker: number
  readonly token: number
  readonly lostAt: number
}

/**
 * The tokens of what one start of a process leases for its runner. Their first part is drawn anew at every start: a
 * name such as `host:pid` may come again, or be shared. A token is drawn before its statement is sent, so a run that
 * carries one which is neither held nor on its way was leased by an answer that never came, or was settled on a server
 * that is gone. All runs of one statement share its token, so a run is known by its id and its token: a busy run must not
 * hide a lost one of the same statement. The runner knows a run until each attempt that has begun with it is settled, also
 * if the lease was lost meanwhile: what has begun is never handed back uncounted.
 */
export class LeaseTokens {
  readonly #first = randomInt(1, runnersEnd / tokensPerStart) * tokensPerStart
  readonly #underWay = new Set<number>()
  #drawn = randomInt(tokensPerStart)
  /** Leases for others than the runner. */
  #lost: LostLease[] = []

  draw(): number {
    this.#drawn = (this.#drawn + 1) % tokensPerStart
    const token = this.#first + this.#drawn
    this.#underWay.add(token)
    return token
  }

  /** The answer is in hand, or will not come. At the end of the turn, when the runner holds what it was given. */
  arrived(token: number): void {
    setImmediate(() => this.#underWay.delete(token))
  }

  /** A lease for somebody else than the runner failed, perhaps after its commit. */
  lost(worker: number, token: number): void {
    this.#lost.push({ worker, token, lostAt: performance.now() })
  }

  /** Hands back, uncounted, what nobody knows of; how many runs that was. */
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
    // Asked for before and after the statement: what was settled since it looked was known before, and what was leased
    // just before it looked is known after.
    const wasKnown = this.#knows(known())
    const rows = await db.run<[runId: number, token: number]>(ownStatement(db), values)
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

const ownStatement = defineStatement(
  'own_leases',
  `select r.id, r.token
  from __schema__.runs r
  where r.state = 'leased' and r.worker = any($1::int[])
    and (r.token between $2::bigint and $3::bigint or r.token = any($4::bigint[]))
  limit 10000`,
)
