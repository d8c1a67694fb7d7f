import { badEvent } from '../domain/bad-value.ts'
import type { EventAttributes } from '../domain/event.ts'
import { isLongerThan, isStorable } from '../domain/text.ts'
import { attributeName, base64Mark, contentTypePattern, noDataMark } from './content.ts'

/** The attributes of one CloudEvent, unchanged. Those in `textAttributes` are texts that are not empty. */
export type Attributes = Map<string, AttributeValue>
export type AttributeValue = string | number | boolean

const attributesMax = 50
const attributeCharsMax = 4096

/** The attributes that a specification defines as texts that are not empty. */
const textAttributes = new Set([
  ...['specversion', 'id', 'source', 'type', 'subject', 'time', 'dataschema', 'datacontenttype'],
  ...['partitionkey', 'expirytime', 'traceparent'],
])
const reservedNames = new Set(['data', base64Mark, noDataMark])
/** Attributes that Posthorn sets on a leased CloudEvent, so no publisher may set them. */
const leaseAttributeNames = ['leasetoken', 'leaseexpires', 'attempt', 'retrycount', 'subscription'] as const
export type LeaseAttributeName = (typeof leaseAttributeNames)[number]
const leaseNames: ReadonlySet<string> = new Set(leaseAttributeNames)

export function addAttribute(attributes: Attributes, name: string, value: AttributeValue): void {
  if (!attributeName.test(name)) throw badEvent(name, 'a name of 1 to 64 lower case letters and digits', name)
  if (reservedNames.has(name)) throw badEvent(name, 'left out: the name has another use', value)
  if (leaseNames.has(name)) throw badEvent(name, 'left out: a leased CloudEvent has its own', value)
  if (typeof value === 'string') checkText(name, value)
  else if (textAttributes.has(name)) throw badEvent(name, 'text', value)
  else if (typeof value === 'number') checkNumber(name, value)
  attributes.set(name, value)
  if (attributes.size > attributesMax) {
    throw badEvent('attributes', `${attributesMax} or fewer`, attributes.size)
  }
}

function checkText(name: string, text: string): void {
  const charsMin = textAttributes.has(name) ? 1 : 0
  if (text.length < charsMin || isLongerThan(text, attributeCharsMax)) {
    throw badEvent(name, `text of ${charsMin} to ${attributeCharsMax} characters`, text)
  }
  if (!isStorable(text)) throw badEvent(name, 'text without NUL and lone surrogates', text)
  if (name === 'datacontenttype' && !contentTypePattern.test(text)) throw badEvent(name, 'a media type', text)
}

/** JavaScript would round a larger number, so it would go out changed. */
function checkNumber(name: string, value: number): void {
  if (Math.abs(value) > Number.MAX_SAFE_INTEGER) throw badEvent(name, 'a number below 2^53', String(value))
}

/** Without a prototype, so that an attribute may be called `constructor`. */
export function toRecord(entries: readonly (readonly [string, AttributeValue])[]): EventAttributes {
  const record: Record<string, AttributeValue> = Object.create(null)
  for (const [name, value] of entries) record[name] = value
  return record
}
