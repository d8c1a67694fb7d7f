/** Replaces a value that is not shown. */
export const hiddenValue = '[hidden]'
const secretive = /authorization|cookie|signature|token|secret|key|password/i
/** Headers that match the pattern above but hold no secret, and that readers look for. */
const harmless = /^(posthorn-|idempotency-key$)/i

const nobody: ReadonlySet<string> = new Set()

/** Headers as they may be shown: the values of hidden headers, and of headers that may hold a secret, are replaced. */
export function hideSecrets<Value>(
  headers: Readonly<Record<string, Value>>,
  hidden: ReadonlySet<string> = nobody,
): Record<string, Value | string> {
  // Without a prototype: a header may be called __proto__.
  const shown: Record<string, Value | string> = Object.create(null)
  for (const name of Object.keys(headers)) {
    shown[name] = isHidden(name, hidden) ? hiddenValue : (headers[name] as Value)
  }
  return shown
}

export function isHidden(name: string, hidden: ReadonlySet<string> = nobody): boolean {
  return hidden.has(name) || isSecretive(name)
}

const judged = new Map<string, boolean>()
const judgedMax = 10_000

/** The same few names come again and again, so the results are remembered. */
function isSecretive(name: string): boolean {
  const known = judged.get(name)
  if (known !== undefined) return known
  const found = secretive.test(name) && !harmless.test(name)
  if (judged.size < judgedMax) judged.set(name, found)
  return found
}
