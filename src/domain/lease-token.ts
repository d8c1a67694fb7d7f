import { badField } from './bad-value.ts'

/** The parts of a lease token. Only `token` is secret; the rest says where to find the lease. */
export interface LeaseToken {
  readonly runId: number
  readonly token: number
  readonly subscription: number
  /** Whether the lease holds a lane: a hint that only decides how soon other workers are woken. */
  readonly lane: boolean
}

/**
 * The token as text, for workers. The random part is masked with a hash of the other parts. If another part is altered, the
 * unmasked random part belongs to no lease, so no statement has to check the other parts.
 */
export function formatLeaseToken({ runId, token, subscription, lane }: LeaseToken): string {
  const place = `${lane ? 'k' : 'r'}${runId.toString(36)}`
  const queue = subscription.toString(36)
  return `${place}-${mask(token, `${place}-${queue}`).toString(36)}-${queue}`
}

export function parseLeaseToken(text: string): LeaseToken {
  const [, place = '', random = '', queue = ''] = form.exec(text) ?? []
  const runId = Number.parseInt(place.slice(1), 36)
  const subscription = Number.parseInt(queue, 36)
  if (!Number.isSafeInteger(runId) || !(subscription <= subscriptionMax)) {
    throw badField('lease_token', 'the token of a lease', text)
  }
  // The hash is of the text, so that a leading zero counts as an alteration.
  const token = mask(Number.parseInt(random, 36), `${place}-${queue}`)
  return { runId, token, subscription, lane: place.startsWith('k') }
}

const form = /^([kr][0-9a-z]{1,11})-([0-9a-z]{1,10})-([0-9a-z]{1,5})$/
const subscriptionMax = 0x1fffff

/** Masks or unmasks: twice with the same text gives the token back. The highest bit stays, so the length of the text stays. */
function mask(token: number, text: string): number {
  const [high, low] = hash(text)
  const upper = Math.floor(token / 2 ** 32) ^ (high & 0x7fff)
  return upper * 2 ** 32 + ((token ^ low) >>> 0)
}

/** Two hashes of 32 bits, by the multiplications of MurmurHash3. They tell texts apart; they hide nothing. */
function hash(text: string): [number, number] {
  let [high, low] = [0x9747b28c, 0x5bd1e995]
  for (let at = 0; at < text.length; at++) {
    high = Math.imul(high ^ text.charCodeAt(at), 0x85ebca6b)
    low = Math.imul(low ^ high ^ (high >>> 15), 0xc2b2ae35)
  }
  return [high ^ (high >>> 13), low ^ (low >>> 16)]
}
