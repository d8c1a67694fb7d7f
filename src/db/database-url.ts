import { PosthornError } from '../errors.ts'
import { urlsOfHosts } from './hosts.ts'

/**
 * The driver would take other texts for the name of a database on a host called base. Paths of sockets are its own
 * second form. Nothing of what was given is shown but the scheme: a password may stand anywhere in it.
 */
export function checkDatabaseUrl(value: string | undefined): string | undefined {
  if (value === undefined || /^(\/|socket:)/.test(value)) return value
  const scheme = /^[a-z][a-z0-9+.-]*:\/\//i.exec(value)?.[0].toLowerCase()
  const isOurs = scheme === 'postgres://' || scheme === 'postgresql://'
  if (isOurs && urlsOfHosts(value, 'DATABASE_URL').every(isReadable)) return value
  throw new PosthornError('BAD_OPTION', {
    option: 'DATABASE_URL',
    expected: 'a postgres:// or postgresql:// URL',
    value: isOurs ? 'one that cannot be read' : scheme === undefined ? 'something else' : `${scheme}…`,
  })
}

/** As the driver reads it, for which a URL may have a user and no host. */
function isReadable(url: string): boolean {
  try {
    const { username, password } = new URL(url.replaceAll(' ', '%20').replace('@/', '@host/'))
    // Of a percent sign without two digits the driver makes one that it can read.
    const percents = /%(?![0-9a-f]{2})/gi
    for (const part of [username, password]) decodeURIComponent(part.replace(percents, '%25'))
    return true
  } catch {
    return false
  }
}
