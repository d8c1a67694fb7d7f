import { randomBytes } from 'node:crypto'

const processPrefix = randomBytes(6).toString('hex')
let requests = 0

/** The id that the caller gave the request, if it is safe to log; otherwise a new one. */
export function requestIdOf(request: { headers: NodeJS.Dict<string | string[]> }): string {
  const given = request.headers['x-request-id']
  return typeof given === 'string' && /^[\w.-]{1,64}$/.test(given) ? given : newRequestId()
}

export function newRequestId(): string {
  return `${processPrefix}-${++requests}`
}
