import { hiddenValue, isHidden } from '../domain/hidden-headers.ts'

/** A shorter value would hide half of an answer, and is no secret. */
const secretCharsMin = 4

/** The parts of a request that nobody is shown, in every form in which a receiver usually repeats them. */
export function secretTexts(
  url: string,
  headers: Readonly<Record<string, string>>,
  hidden: ReadonlySet<string>,
): string[] {
  const values = querySecrets(url)
  for (const name in headers) {
    if (!isHidden(name, hidden)) continue
    const value = headers[name] as string
    // `Bearer abc` is often repeated without its scheme.
    values.push(value, value.slice(value.indexOf(' ') + 1))
  }
  const texts = new Set<string>()
  for (const value of values) {
    if (value.length < secretCharsMin) continue
    texts.add(value)
    texts.add(JSON.stringify(value).slice(1, -1))
  }
  // A value before its parts: what is left of it would still tell something.
  return [...texts].sort((a, b) => b.length - a.length)
}

/** The query as it was sent, and what it says when it is decoded. */
function querySecrets(url: string): string[] {
  const start = url.indexOf('?')
  if (start === -1) return []
  const query = url.slice(start + 1)
  return [query, ...new URLSearchParams(query).values()]
}

export function hideTexts(text: string, secrets: readonly string[]): string {
  let shown = text
  for (const secret of secrets) shown = shown.replaceAll(secret, hiddenValue)
  return shown
}
