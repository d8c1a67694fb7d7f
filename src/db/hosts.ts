import { PosthornError } from '../errors.ts'

const form = /^(postgres(?:ql)?:\/\/(?:[^@/?#]*@)?)([^/?#]*)([^?#]*)(?:\?(.*))?$/is
const attributes = ['any', 'read-write', 'primary']

/**
 * One URL for each host that a URL names, as libpq reads it: `postgres://user@db1:5432,db2:5433/app`. We always want the
 * server that takes writes, so `target_session_attrs` can only say that.
 */
export function urlsOfHosts(url: string, option: string): string[] {
  const [, start = '', hosts = '', path = '', query = ''] = form.exec(url) ?? []
  const parameters = query.split('&').filter((one) => one !== '')
  const isAttribute = (one: string) => one.startsWith('target_session_attrs=')
  const attribute = parameters.find(isAttribute)?.split('=')[1]
  if (attribute !== undefined && !attributes.includes(attribute)) {
    const expected = `without target_session_attrs, or with one of ${attributes.join(', ')}`
    throw new PosthornError('BAD_OPTION', { option, expected, value: `target_session_attrs=${attribute}` })
  }
  if (!hosts.includes(',')) return [url]
  const kept = parameters.filter((one) => !isAttribute(one))
  const end = path + (kept.length === 0 ? '' : `?${kept.join('&')}`)
  return hosts.split(',').map((host) => {
    if (host !== '') return start + host + end
    const expected = 'a URL with a name or an address between its commas'
    throw new PosthornError('BAD_OPTION', { option, expected, value: hosts })
  })
}
