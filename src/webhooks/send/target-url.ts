import { isIP } from 'node:net'
import { PosthornError } from '../../errors.ts'
import type { AddressPolicy } from './address-policy.ts'

const charsMax = 2048
/** Names that exist only inside a network, where nobody from outside may send our requests. */
const localName = /\.(localhost|localdomain|internal|intranet|local|lan|corp|home|home\.arpa|private|svc)$/
const metadataNames = ['metadata.google.internal', 'metadata.goog', 'instance-data.ec2.internal']

/**
 * Checks the URL of an endpoint and returns it in its normal form. The address that it resolves to is checked at every
 * connection; this check only tells the caller early. Throws BAD_FIELD.
 */
export function checkTargetUrl(text: string, policy: AddressPolicy): string {
  return parseTargetUrl(text, policy).href
}

export function parseTargetUrl(text: string, policy: AddressPolicy): URL {
  if (text.length > charsMax) throw refused(`at most ${charsMax} characters`, `${text.length} characters`)
  if (!URL.canParse(text)) throw refused('an http or https URL', text)
  const url = new URL(text)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw refused('an http or https URL', text)
  if (url.username !== '' || url.password !== '') throw refused('without a name and password', 'one with')
  if (url.href.includes('#')) throw refused('without a fragment', url.hash || '#')
  if (url.port === '0') throw refused('a URL with a port that exists', '0')
  checkHost(url.hostname, policy)
  return url
}

function checkHost(hostname: string, policy: AddressPolicy): void {
  const literal = hostname.replace(/^\[|\]$/g, '')
  if (isIP(literal) !== 0) {
    if (policy.judge(literal) !== 'allowed') throw refused(publicHost, hostname)
    return
  }
  const name = hostname.replace(/\.$/, '')
  if (name === '') throw refused('a URL with a host', hostname)
  if (metadataNames.includes(name)) throw refused(publicHost, hostname)
  const isLocal = !name.includes('.') || hostname.endsWith('.') || localName.test(name)
  if (isLocal && !policy.hasAllowances) throw refused(publicHost, hostname)
}

const publicHost = 'on a public host (POSTHORN_ALLOW_CIDRS admits others)'

function refused(expected: string, value: string): PosthornError {
  return new PosthornError('BAD_FIELD', { field: 'url', expected, value })
}
