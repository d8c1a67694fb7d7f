/** What reading and writing CloudEvents agree on: names, content types, and the marks that are kept with an event. */

export const structuredType = 'application/cloudevents+json'
export const batchType = 'application/cloudevents-batch+json'

/** CloudEvents wants lower case letters and digits, and no more than 20 of them; producers do go over the 20. */
export const attributeName = /^[a-z0-9]{1,64}$/

/** Kept as an attribute of an event whose payload is a text of base64: out again it is binary. */
export const base64Mark = 'database64'
/** Kept as an attribute of an event that came without data: its payload is null, and out again it has no data. */
export const noDataMark = 'nodata'

/** A media type with its parameters, printable: so it can also be written to a header. */
export const contentTypePattern = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+[ \t]*(?:;[\x20-\x7e\t]*)?$/

export function mediaTypeOf(contentType: string): string {
  return (contentType.split(';', 1)[0] as string).trim().toLowerCase()
}

export function isJsonType(contentType: string): boolean {
  return /^[^/]+\/(?:.+\+)?json$/.test(mediaTypeOf(contentType))
}

/** Text that can be read as UTF-8; in another charset the bytes say more than we do. */
export function isUtf8TextType(contentType: string): boolean {
  return mediaTypeOf(contentType).startsWith('text/') && isUtf8Charset(contentType)
}

/** Whether what the charset says, if there is one, can be read as UTF-8. */
export function isUtf8Charset(contentType: string): boolean {
  const charset = /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(contentType)?.[1]?.toLowerCase()
  return charset === undefined || charset === 'utf-8' || charset === 'utf8' || charset === 'us-ascii'
}

export function isBase64(text: string): boolean {
  return text.length % 4 === 0 && !/[^A-Za-z0-9+/]/.test(text.replace(/={1,2}$/, ''))
}
