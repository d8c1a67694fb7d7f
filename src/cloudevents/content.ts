/** What reading and writing CloudEvents share: names, content types, and the marks that are stored with an event. */

export const structuredType = 'application/cloudevents+json'
export const batchType = 'application/cloudevents-batch+json'

/** CloudEvents allows lower case letters and digits, and recommends at most 20 of them; producers exceed the 20. */
export const attributeName = /^[a-z0-9]{1,64}$/

/** The attribute that marks a payload of base64 text: it goes out as binary data. */
export const base64Mark = 'database64'
/** The attribute that marks an event without data: its payload is null, and it goes out without data. */
export const noDataMark = 'nodata'

/** A media type with its parameters, printable, so that it can be written to a header. */
export const contentTypePattern = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+[ \t]*(?:;[\x20-\x7e\t]*)?$/

export function mediaTypeOf(contentType: string): string {
  return (contentType.split(';', 1)[0] as string).trim().toLowerCase()
}

export function isJsonType(contentType: string): boolean {
  return /^[^/]+\/(?:.+\+)?json$/.test(mediaTypeOf(contentType))
}

/** Whether the type is text in UTF-8; text in another charset is stored as bytes. */
export function isUtf8TextType(contentType: string): boolean {
  return mediaTypeOf(contentType).startsWith('text/') && isUtf8Charset(contentType)
}

/** Whether the charset, if one is given, can be read as UTF-8. */
export function isUtf8Charset(contentType: string): boolean {
  const charset = /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(contentType)?.[1]?.toLowerCase()
  return charset === undefined || charset === 'utf-8' || charset === 'utf8' || charset === 'us-ascii'
}

export function isBase64(text: string): boolean {
  return text.length % 4 === 0 && !/[^A-Za-z0-9+/]/.test(text.replace(/={1,2}$/, ''))
}
