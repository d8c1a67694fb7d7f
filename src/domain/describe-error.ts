import { toStorable } from './text.ts'

export const errorCharsMax = 4000
const messageCharsMax = 1500
const framesCharsMax = 1500
const causesMax = 4

/**
 * A thrown value as text that can be stored. Of an error only name, message, stack and causes are shown, since the other fields
 * of an HTTP client's error hold credentials.
 */
export function describeError(thrown: unknown): string {
  const texts: string[] = []
  for (let error = thrown, i = 0; i === 0 || (error !== undefined && i <= causesMax); i++) {
    texts.push(guarded(() => describeOne(error), 'a thrown value that cannot be read'))
    error = guarded(() => causeOf(error), undefined)
  }
  return toStorable(texts.join('\ncaused by: '), errorCharsMax)
}

/** Node's error for a failed connection is an AggregateError without a message; its first error says why. */
function causeOf(error: unknown): unknown {
  if (!(error instanceof Error)) return undefined
  return error.cause ?? (error instanceof AggregateError ? error.errors[0] : undefined)
}

function describeOne(thrown: unknown): string {
  if (thrown instanceof Error) return describeThrownError(thrown)
  if (typeof thrown !== 'object' || thrown === null) return String(thrown)
  return guarded(() => JSON.stringify(thrown), undefined) ?? Object.prototype.toString.call(thrown)
}

/** Message and frames are cut separately, so that a long message does not displace the frames. */
function describeThrownError(error: Error): string {
  const name = guarded(() => String(error.name), 'Error')
  const message = guarded(() => String(error.message), 'its message cannot be read')
  const stack = guarded(() => String(error.stack), '')
  const framesAt = stack.search(/\n {4}at /)
  const frames = framesAt < 0 ? '' : stack.slice(framesAt, framesAt + framesCharsMax)
  const headline = message === '' ? name : `${name}: ${message}`
  return toStorable(headline, messageCharsMax) + frames
}

/** Getters, proxies and toString of a thrown value may throw themselves. */
function guarded<T>(read: () => T, fallback: T): T {
  try {
    return read()
  } catch {
    return fallback
  }
}
