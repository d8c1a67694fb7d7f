import { PosthornError } from '../errors.ts'

/** What a lease token stands for. The token proper is random; the rest only says where to look. */
export interface LeaseToken {
  readonly runId: number
  readonly token: number
  readonly subscription: number
  /** Whether it holds a lane; a hint that only decides how soon others are told. */
  readonly lane: boolean
}

/** As text, for workers that know nothing of runs. */
export function formatLeaseToken({ runId, token, subscription, lane }: LeaseToken): string {
  return `${lane ? 'k' : 'r'}${runId.toString(36)}-${token.toString(36)}-${subscription.toString(36)}`
}

export function parseLeaseToken(text: string): LeaseToken {
  const [, kind, ...parts] = form.exec(text) ?? []
  const [runId = Number.NaN, token = Number.NaN, subscription = Number.NaN] = parts.map((part) =>
    Number.parseInt(part, 36),
  )
  if (!Number.isSafeInteger(runId) || !Number.isSafeInteger(token) || !(subscription <= 0x1fffff)) {
    throw new PosthornError('BAD_FIELD', {
      field: 'lease_token',
      expected: 'one that a lease gave',
      value: text,
    })
  }
  return { runId, token, subscription, lane: kind === 'k' }
}

const form = /^([kr])([0-9a-z]{1,11})-([0-9a-z]{1,10})-([0-9a-z]{1,5})$/
