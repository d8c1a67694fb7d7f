/** Stands where a value is not shown. */
export const hiddenValue = '[hidden]'
const secretive = /authorization|cookie|signature|token|secret|key|password/i
/** Our own, and what tells repeats apart: no secrets, and what a reader came for. */
const harmless = /^(posthorn-|idempotency-key$)/i

const nobody: ReadonlySet<string> = new Set()

/** Headers as they may be shown: without the values of those that are hidden, and of those that can hold a secret. */
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

/** Few names come again and again. */
function isSecretive(name: string): boolean {
  const known = judged.get(name)
  if (known !== undefined) return known
  const found = secretive.test(name) && !harmless.test(name)
  if (judged.size < judgedMax) judged.set(name, found)
  return found
}
