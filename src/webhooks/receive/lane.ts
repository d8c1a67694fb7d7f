import type { HeaderLookup } from './headers.ts'

/** The place of a delivery in its lane: the deliveries of one subscriber that share an ordering key. */
export interface LanePlace {
  readonly orderingKey: string
  /** From 1 and without gaps, the same for every attempt. */
  readonly sequence: number
  /** The last one before it that was delivered; 0: none. */
  readonly previousSequence: number
  /** Those between that were given up, in ascending order. */
  readonly skipped: readonly number[]
  /** When the numbering began. A lane that was idle for long begins again at 1, in a later epoch; 0: not said. */
  readonly epoch: number
  /** A later one was delivered before: it was given up once, and somebody had it sent after all. */
  readonly outOfOrder: boolean
  /** It was delivered before, under the same id and another sequence. */
  readonly replay: boolean
}

/** What can be listed as skipped: a short header could name more numbers than there is memory for. */
export const skippedMax = 100_000

/** Null: not of a lane, or it cannot be read. */
export function readLane(header: HeaderLookup): LanePlace | null {
  const orderingKey = decode(header('posthorn-ordering-key'))
  const sequence = readWhole(header('posthorn-sequence'))
  if (orderingKey === null || sequence === null || sequence === 0) return null
  return {
    orderingKey,
    sequence,
    previousSequence: readWhole(header('posthorn-previous-sequence')) ?? 0,
    skipped: readRanges(header('posthorn-skipped')),
    epoch: readWhole(header('posthorn-lane-epoch')) ?? 0,
    outOfOrder: isSaid(header('posthorn-out-of-order')),
    replay: isSaid(header('posthorn-replay')),
  }
}

/** A number that is exact; null for anything else. */
export function readWhole(text: string | undefined): number | null {
  if (text === undefined || !/^\d{1,16}$/.test(text)) return null
  const number = Number(text)
  return Number.isSafeInteger(number) ? number : null
}

/** `5`, `5-9` or `5,7-9`. A list that cannot be read declares nothing, so that a checker sees the gap. */
function readRanges(text: string | undefined): number[] {
  const numbers = new Set<number>()
  for (const part of text?.split(',') ?? []) {
    const [, first, last] = /^\s*(\d+)(?:-(\d+))?\s*$/.exec(part) ?? []
    const from = readWhole(first)
    const to = readWhole(last ?? first)
    if (from === null || to === null || to < from || to - from + numbers.size >= skippedMax) return []
    for (let number = from; number <= to; number++) numbers.add(number)
  }
  return [...numbers].sort((one, other) => one - other)
}

function decode(text: string | undefined): string | null {
  if (text === undefined) return null
  try {
    return decodeURIComponent(text)
  } catch (error) {
    if (error instanceof URIError) return null
    throw error
  }
}

function isSaid(text: string | undefined): boolean {
  return text !== undefined && text !== 'false'
}
