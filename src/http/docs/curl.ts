import type { Route } from '../route.ts'
import type { Parameter, RequestBody } from './document.ts'

const origin = 'http://localhost:8080'

/** A curl command for the route, to be pasted into a shell. */
export function curlLine(
  { method, path, scope }: Route,
  parameters: readonly Parameter[],
  body: RequestBody | undefined,
): string {
  const url = `${origin}${filledPath(path, parameters)}${queryOf(parameters)}`
  return [
    `curl ${verbOf(method)}${quoted(url)}`,
    ...(scope === null ? [] : ['-H "Authorization: Bearer $POSTHORN_KEY"']),
    ...bodyOf(body),
  ].join(' \\\n  ')
}

function verbOf(method: Route['method']): string {
  if (method === 'GET') return ''
  return method === 'HEAD' ? '-I ' : `-X ${method} `
}

function filledPath(path: string, parameters: readonly Parameter[]): string {
  return path.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const example = parameters.find((one) => one.in === 'path' && one.name === name)?.example
    return example === undefined ? whole : encodeURIComponent(String(example))
  })
}

/** The required parameters, and the first one that has an example, to show the form of a query. */
function queryOf(parameters: readonly Parameter[]): string {
  const known = parameters.filter((one) => one.in === 'query' && one.example !== undefined)
  const pairs = known
    .filter((one, place) => one.required || place === 0)
    .map(
      ({ name, example }) =>
        `${name}=${encodeURIComponent(String(example)).replace(/%(2C|3A)/g, decodeURIComponent)}`,
    )
  return pairs.length === 0 ? '' : `?${pairs.join('&')}`
}

function bodyOf(body: RequestBody | undefined): string[] {
  const [shown] = Object.entries(body?.content ?? {}).filter(([, { example }]) => example !== undefined)
  if (shown === undefined) return []
  const [type, { example }] = shown
  return [`-H ${quoted(`Content-Type: ${type}`)}`, `-d ${quoted(JSON.stringify(example))}`]
}

function quoted(text: string): string {
  return /^[\w:/.,=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}
