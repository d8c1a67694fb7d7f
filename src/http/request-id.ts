import { randomBytes } from 'node:crypto'

const processPrefix = randomBytes(6).toString('hex')
let requests = 0

/** What the caller calls its request, if that can be written to a log as it is. */
export function requestIdOf(request: { headers: NodeJS.Dict<string | string[]> }): string {
  const given = request.headers['x-request-id']
  return typeof given === 'string' && /^[\w.-]{1,64}$/.test(given) ? given : newRequestId()
}

export function newRequestId(): string {
  return `${processPrefix}-${++requests}`
}
