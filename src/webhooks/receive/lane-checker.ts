import { badOption } from '../../domain/bad-value.ts'
import { checkOptions } from '../../domain/known-names.ts'
import type { LanePlace } from './lane.ts'

/**
 * - `next`: no delivery before it is missing, except those that were declared skipped.
 * - `repeat`: the last delivery again, as after a lost answer.
 * - `gap`: a delivery before it is missing and was not declared skipped.
 * - `out-of-order`: a later delivery came before it. `outOfOrder` says whether the sender declared that.
 */
export type LaneVerdict = 'next' | 'repeat' | 'gap' | 'out-of-order'

export interface LaneCheckerOptions {
  /** Whether a new lane must begin with its first delivery (default) or may begin with any. */
  readonly start?: 'first' | 'anywhere'
  /** How many lanes are remembered. The lane that was idle longest is forgotten first. Default 100,000. */
  readonly lanesMax?: number
}

/** Checks the numbers of lanes. It keeps two numbers per lane in memory and compares them, nothing else. */
export class LaneChecker {
  readonly #start: 'first' | 'anywhere'
  readonly #lanesMax: number
  readonly #lanes = new Map<string, { epoch: number; sequence: number }>()

  constructor(options: LaneCheckerOptions = {}) {
    checkOptions(options, { start: true, lanesMax: true }, 'LaneChecker')
    const { start = 'first', lanesMax = 100_000 } = options
    if (!Number.isInteger(lanesMax) || lanesMax < 1) throw badOption('lanesMax', '1 or more', lanesMax)
    this.#start = start
    this.#lanesMax = lanesMax
  }

  /** `subscriber` keeps lanes apart where one checker serves several subscribers. */
  check(place: LanePlace, { subscriber = '' }: { subscriber?: string } = {}): LaneVerdict {
    const key = JSON.stringify([subscriber, place.orderingKey])
    const seen = this.#lanes.get(key)
    const verdict = this.#judge(place, seen)
    // A late delivery says nothing about the next one.
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

/** `skipped` has each number once, so it is enough to count those in between. */
function follows({ sequence, skipped }: LanePlace, last: number): LaneVerdict {
  const declared = skipped.filter((number) => number > last && number < sequence)
  return declared.length === sequence - last - 1 ? 'next' : 'gap'
}
