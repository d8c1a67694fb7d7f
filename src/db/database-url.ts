import { PosthornError } from '../errors.ts'
import { urlsOfHosts } from './hosts.ts'

/**
 * The driver would take any other text for the name of a database on a host called `base`. It also takes paths of
 * sockets. The error, which calls the URL by `option`, shows no more of it than the scheme: a password may stand
 * anywhere in it.
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
