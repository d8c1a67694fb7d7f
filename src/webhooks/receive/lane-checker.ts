import { checkOptions } from '../../domain/known-names.ts'
import { PosthornError } from '../../errors.ts'
import type { LanePlace } from './lane.ts'

/**
 * - `next`: nothing is missing before it but what was declared skipped.
 * - `repeat`: the last one again, as after a lost answer.
 * - `gap`: something before it never came, and was not declared skipped.
 * - `out-of-order`: a later one came before. `outOfOrder` of the delivery says whether that was declared.
 */
export type LaneVerdict = 'next' | 'repeat' | 'gap' | 'out-of-order'

export interface LaneCheckerOptions {
  /** Where a lane may begin that was not seen before: with its first delivery (default), or with any. */
  readonly start?: 'first' | 'anywhere'
  /** How many lanes are remembered; the one that was idle longest is forgotten first. Default 100,000. */
  readonly lanesMax?: number
}

/** Follows lanes by their numbers. It keeps two numbers per lane in memory, and does nothing but compare. */
export class LaneChecker {
  readonly #start: 'first' | 'anywhere'
  readonly #lanesMax: number
  readonly #lanes = new Map<string, { epoch: number; sequence: number }>()

  constructor(options: LaneCheckerOptions = {}) {
    checkOptions(options, { start: true, lanesMax: true }, 'LaneChecker')
    const { start = 'first', lanesMax = 100_000 } = options
    if (!Number.isInteger(lanesMax) || lanesMax < 1) {
      throw new PosthornError('BAD_OPTION', { option: 'lanesMax', expected: '1 or more', value: lanesMax })
    }
    this.#start = start
    this.#lanesMax = lanesMax
  }

  /** `subscriber`: whose lane it is, where one checker follows several subscribers. */
  check(place: LanePlace, { subscriber = '' }: { subscriber?: string } = {}): LaneVerdict {
    const key = JSON.stringify([subscriber, place.orderingKey])
    const seen = this.#lanes.get(key)
    const verdict = this.#judge(place, seen)
    // A late one says nothing about what comes next.
    if (verdict !== 'out-of-order') this.#remember(key, place)
    return verdict
  }

  #judge(place: LanePlace, seen: { epoch: number; sequence: number } | undefined): LaneVerdict {
    const { epoch, sequence, outOfOrder } = place
    if (outOfOrder) return 'out-of-order'
    if (seen === undefined && this.#start === 'anywhere') return 'next'
    if (seen === undefined || epoch > seen.epoch) return follows(place, 0)
    if (epoch < seen.epoch || sequence < seen.sequence) return 'out-of-order'
    return sequence === seen.sequence ? 'repeat' : follows(place, seen.sequence)
  }

  #remember(key: string, { epoch, sequence }: LanePlace): void {
    this.#lanes.delete(key)
    this.#lanes.set(key, { epoch, sequence })
    if (this.#lanes.size <= this.#lanesMax) return
    const [oldest] = this.#lanes.keys()
    this.#lanes.delete(oldest as string)
  }
}

/** `skipped` names each number once, so counting those between is enough. */
function follows({ sequence, skipped }: LanePlace, last: number): LaneVerdict {
  const declared = skipped.filter((number) => number > last && number < sequence)
  return declared.length === sequence - last - 1 ? 'next' : 'gap'
}
