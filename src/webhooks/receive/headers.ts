/** Headers as frameworks give them: `Headers` of fetch, or Node's plain object. Names may be in any case. */
export type WebhookHeaders =
  | { get(name: string): string | null | undefined }
  | Readonly<Record<string, string | readonly string[] | undefined>>

export type HeaderLookup = (name: string) => string | undefined

/** Looks up lower-case names. A header that is empty or occurs more than once counts as missing. */
export function headerLookup(headers: WebhookHeaders): HeaderLookup {
  if (hasGet(headers)) return (name) => headers.get(name) || undefined
  const found = new Map<string, string[]>()
  for (const [name, value = []] of Object.entries(headers)) {
    const key = name.toLowerCase()
    found.set(key, [...(found.get(key) ?? []), ...[value].flat()])
  }
  return (name) => {
    const values = found.get(name) ?? []
    return values.length === 1 && typeof values[0] === 'string' ? values[0] || undefined : undefined
  }
}

function hasGet(headers: WebhookHeaders): headers is { get(name: string): string | null | undefined } {
  return typeof headers.get === 'function'
}
