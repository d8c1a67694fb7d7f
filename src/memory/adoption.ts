import type { LeasedDelivery, LeasedRun } from '../domain/delivery.ts'
import type { Entry, MemoryDelivery, MemoryRun } from './entry.ts'

/**
 * A run in the database that is leased to this process; `'completed'`: the handler's own transaction has completed the
 * delivery; `'lost'`: another process has it, or will; null: it is still in memory.
 */
export type AdoptedAs = LeasedRun | 'completed' | 'lost' | null

/**
 * What becomes of an attempt that is under way while its queue is moved to the database: the attempt goes on with a run
 * there, which is leased to this process. Until that is decided its settlement waits.
 */
export class Adoption {
  /** Undefined: not decided yet. */
  result: AdoptedAs | undefined
  readonly decided: Promise<AdoptedAs>
  #resolve: (result: AdoptedAs) => void = () => undefined

  constructor() {
    this.decided = new Promise((resolve) => {
      this.#resolve = resolve
    })
  }

  decide(result: AdoptedAs): void {
    if (this.result !== undefined) return
    this.result = result
    this.#resolve(result)
  }
}

export function isAdopted(delivery: LeasedDelivery): boolean {
  return (delivery as MemoryDelivery).entry.adoption !== null
}

/** Memory must not settle the entry: the database has it, or may have it soon. */
export function isMoving({ adoption }: Entry): boolean {
  return adoption !== null && adoption.result !== null
}

/** The runs in the database that a run in memory was moved to, as far as decided; undefined: nothing of it is moved. */
export function movedOf(
  run: MemoryRun,
): { readonly runs: LeasedRun[]; readonly isOpen: boolean } | undefined {
  const adoptions = run.deliveries.flatMap(({ entry }) => entry.adoption ?? [])
  if (adoptions.length === 0) return undefined
  const results = adoptions.map(({ result }) => result)
  return {
    runs: results.flatMap((result) => (typeof result === 'object' && result !== null ? [result] : [])),
    // Nobody else can lease what a transaction has completed.
    isOpen: results.some((result) => result === undefined || result === 'completed'),
  }
}
