import { toStorable } from './text.ts'

export const errorCharsMax = 4000
const messageCharsMax = 1500
const framesCharsMax = 1500
const causesMax = 4

/**
 * Whatever was thrown, as text that can be stored. Of an error its name, message, stack and causes are told
 * and nothing else: the other fields of an HTTP client's error hold credentials.
 */
export function describeError(thrown: unknown): string {
  const told: string[] = []
  for (let error = thrown, i = 0; i === 0 || (error !== undefined && i <= causesMax); i++) {
    told.push(guarded(() => describeOne(error), 'a thrown value that cannot be read'))
    error = guarded(() => causeOf(error), undefined)
  }
  return toStorable(told.join('\ncaused by: '), errorCharsMax)
}

/** Node's own "cannot connect" is an AggregateError without a message: the first of its errors says why. */
function causeOf(error: unknown): unknown {
  if (!(error instanceof Error)) return undefined
  return error.cause ?? (error instanceof AggregateError ? error.errors[0] : undefined)
}

function describeOne(thrown: unknown): string {
  if (thrown instanceof Error) return describeThrownError(thrown)
  if (typeof thrown !== 'object' || thrown === null) return String(thrown)
  return guarded(() => JSON.stringify(thrown), undefined) ?? Object.prototype.toString.call(thrown)
}

/** The message is cut apart from the frames, so that a long one does not push them out. */
function describeThrownError(error: Error): string {
  const name = guarded(() => String(error.name), 'Error')
  const message = guarded(() => String(error.message), 'its message cannot be read')
  const stack = guarded(() => String(error.stack), '')
  const framesAt = stack.search(/\n {4}at /)
  const frames = framesAt < 0 ? '' : stack.slice(framesAt, framesAt + framesCharsMax)
  const headline = message === '' ? name : `${name}: ${message}`
  return toStorable(headline, messageCharsMax) + frames
}

/** Getters, proxies and toString of thrown values may throw in their turn. */
function guarded<T>(read: () => T, fallback: T): T {
  try {
    return read()
  } catch {
    return fallback
  }
}
