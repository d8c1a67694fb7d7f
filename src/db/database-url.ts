import { PosthornError } from '../errors.ts'

/**
 * Refuses every text but a PostgreSQL URL or the path of a socket: the driver would read any other text as the name of a
 * database on a host called `base`. The error, which calls the URL by `option`, shows no more than the scheme: a password
 * may stand anywhere in the text.
 */
export function checkDatabaseUrl(value: string, option: string): string {
  if (/^(\/|socket:)/.test(value)) return value
  const scheme = /^[a-z][a-z0-9+.-]*:\/\//i.exec(value)?.[0].toLowerCase()
  const isOurs = scheme === 'postgres://' || scheme === 'postgresql://'
  if (isOurs && urlsOfHosts(value, option).every(isReadable)) return value
  throw new PosthornError('BAD_OPTION', {
    option,
    expected: 'a postgres:// or postgresql:// URL',
    value: isOurs ? 'one that cannot be read' : scheme === undefined ? 'something else' : `${scheme}…`,
  })
}

/** Reads a URL as the driver does: it may have a user and no host. */
function isReadable(url: string): boolean {
  try {
    const { username, password } = new URL(url.replaceAll(' ', '%20').replace('@/', '@host/'))
    // The driver reads a percent sign without two digits as a percent sign.
    const percents = /%(?![0-9a-f]{2})/gi
    for (const part of [username, password]) decodeURIComponent(part.replace(percents, '%25'))
    return true
  } catch {
    return false
  }
}

const form = /^(postgres(?:ql)?:\/\/(?:[^@/?#]*@)?)([^/?#]*)([^?#]*)(?:\?(.*))?$/is
const attributes = ['any', 'read-write', 'primary']

/**
 * One URL for each host of a URL, as libpq reads it: `postgres://user@db1:5432,db2:5433/app` gives two. Posthorn always
 * needs the server that takes writes, so `target_session_attrs` must not ask for another.
 */
export function urlsOfHosts(url: string, option: string): string[] {
  const [, start = '', hosts = '', path = '', query = ''] = form.exec(url) ?? []
  const parameters = query.split('&').filter((parameter) => parameter !== '')
  const isAttribute = (parameter: string) => parameter.startsWith('target_session_attrs=')
  const attribute = parameters.find(isAttribute)?.split('=')[1]
  if (attribute !== undefined && !attributes.includes(attribute)) {
    const expected = `without target_session_attrs, or with one of ${attributes.join(', ')}`
    throw new PosthornError('BAD_OPTION', { option, expected, value: `target_session_attrs=${attribute}` })
  }
  if (!hosts.includes(',')) return [url]
  const kept = parameters.filter((parameter) => !isAttribute(parameter))
  const end = path + (kept.length === 0 ? '' : `?${kept.join('&')}`)
  return hosts.split(',').map((host) => {
    if (host !== '') return start + host + end
    const expected = 'a URL with a name or an address between its commas'
    throw new PosthornError('BAD_OPTION', { option, expected, value: hosts })
  })
}
