const hidden = '[hidden]'
const secretive = /authorization|cookie|signature|token|secret|key|password/i
/** Our own, and what tells repeats apart: no secrets, and what a reader came for. */
const harmless = /^(posthorn-|idempotency-key$)/i

/** Headers as they may be shown: those that can hold a secret without their values. */
export function hideSecrets(headers: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, isSecretive(name) ? hidden : value]),
  )
}

function isSecretive(name: string): boolean {
  return secretive.test(name) && !harmless.test(name)
}
