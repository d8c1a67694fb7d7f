import { badField } from './bad-value.ts'

/** What a lease token stands for. The token proper is random; the rest only says where to look. */
export interface LeaseToken {
  readonly runId: number
  readonly token: number
  readonly subscription: number
  /** Whether it holds a lane; a hint that only decides how soon others are told. */
  readonly lane: boolean
}

/**
 * As text, for workers that know nothing of runs. The random part is covered by a hash of the others: where one of them was
 * altered, another random part comes out of it, which no lease has. So no statement has to check what only says where to look.
 */
export function formatLeaseToken({ runId, token, subscription, lane }: LeaseToken): string {
  const place = `${lane ? 'k' : 'r'}${runId.toString(36)}`
  const queue = subscription.toString(36)
  return `${place}-${cover(token, `${place}-${queue}`).toString(36)}-${queue}`
}

export function parseLeaseToken(text: string): LeaseToken {
  const [, place = '', random = '', queue = ''] = form.exec(text) ?? []
  const runId = Number.parseInt(place.slice(1), 36)
  const subscription = Number.parseInt(queue, 36)
  if (!Number.isSafeInteger(runId) || !(subscription <= subscriptionMax)) {
    throw badField('lease_token', 'the token of a lease', text)
  }
  // By the text of the other parts, so that a zero before a number alters it as well.
  const token = cover(Number.parseInt(random, 36), `${place}-${queue}`)
  return { runId, token, subscription, lane: place.startsWith('k') }
}

const form = /^([kr][0-9a-z]{1,11})-([0-9a-z]{1,10})-([0-9a-z]{1,5})$/
const subscriptionMax = 0x1fffff

/** Done twice with the same text, it is undone. Changes the lower 47 bits: the highest one of a token stays, and so its length. */
function cover(token: number, text: string): number {
  const [high, low] = hash(text)
  const upper = Math.floor(token / 2 ** 32) ^ (high & 0x7fff)
  return upper * 2 ** 32 + ((token ^ low) >>> 0)
}

/** Two of 32 bits, by the multiplications of MurmurHash3. Not to hide anything: only to tell texts apart. */
function hash(text: string): [number, number] {
  let [high, low] = [0x9747b28c, 0x5bd1e995]
  for (let at = 0; at < text.length; at++) {
    high = Math.imul(high ^ text.charCodeAt(at), 0x85ebca6b)
    low = Math.imul(low ^ high ^ (high >>> 15), 0xc2b2ae35)
  }
  return [high ^ (high >>> 13), low ^ (low >>> 16)]
}
