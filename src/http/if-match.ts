import type { IncomingHttpHeaders } from 'node:http'
import { badField } from '../domain/bad-value.ts'

/** The versions that the header `If-Match` allows a change of (RFC 9110); null: any version. */
export function versionsOf(headers: IncomingHttpHeaders): readonly number[] | null {
  const given = headers['if-match']
  if (given === undefined || given.trim() === '*') return null
  const tags = readTags(given)
  if (tags === undefined) {
    throw badField('If-Match', '* or a list of ETags such as "3"', given)
  }
  // Tags are compared byte by byte, so "03" is not "3". A tag that is not a number matches nothing.
  return tags.map(Number).filter((version, at) => String(version) === tags[at])
}

/** The text of each strong tag; weak tags never match. Undefined: this is not a list of tags. */
function readTags(list: string): string[] | undefined {
  const element = /[ \t,]*(W\/)?"([\x21\x23-\x7e\x80-\xff]*)"[ \t]*(?:,|$)/y
  const strong: string[] = []
  let end = 0
  for (let found = element.exec(list); found !== null; found = element.exec(list)) {
    end = element.lastIndex
    const [, weak, tag = ''] = found
    if (weak === undefined) strong.push(tag)
  }
  return end > 0 && /^[ \t,]*$/.test(list.slice(end)) ? strong : undefined
}
