import type { HeaderLookup } from './headers.ts'

/** The place of a delivery in its lane: the deliveries of one subscriber that share an ordering key. */
export interface LanePlace {
  readonly orderingKey: string
  /** 1, 2, 3 … without gaps; the same for every attempt. */
  readonly sequence: number
  /** The last delivered number before it; 0: none. */
  readonly previousSequence: number
  /** The numbers in between, which were given up, in ascending order. */
  readonly skipped: readonly number[]
  /** When the numbering began. After long idleness or a failover a lane begins again at 1, in a later epoch. 0: unknown. */
  readonly epoch: number
  /** It was given up, later deliveries went first, and then somebody had it sent again. */
  readonly outOfOrder: boolean
  /** It was delivered before, with the same id and another sequence. */
  readonly replay: boolean
}

/** A bound for `skipped`: a short header can name more numbers than fit into memory. */
const skippedMax = 100_000

/** Null: the delivery has no ordering key, or its headers cannot be read. */
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
    outOfOrder: isSet(header('posthorn-out-of-order')),
    replay: isSet(header('posthorn-replay')),
  }
}

/** An exact whole number; null for anything else. */
export function readWhole(text: string | undefined): number | null {
  if (text === undefined || !/^\d{1,16}$/.test(text)) return null
  const number = Number(text)
  return Number.isSafeInteger(number) ? number : null
}

/** `5`, `5-9` or `5,7-9`. A list that cannot be read counts as empty, so that a checker sees the gap. */
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

function isSet(text: string | undefined): boolean {
  return text !== undefined && text !== 'false'
}
