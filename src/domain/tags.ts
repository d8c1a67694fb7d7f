import { badEvent, badOption } from './bad-value.ts'
import { isLongerThan, isStorable } from './text.ts'

const tagsMax = 32
const tagCharsMax = 100
/** The longest text of tags, with room for spaces and repeated tags. */
export const tagsTextCharsMax = 3_300
const piecesMax = 1_000

/** `"a,b"` or `["a","b"]` as a list: trimmed, each once, in the order given. No tags at all is `null`. */
export function parseTags(input: unknown): readonly string[] | null {
  const tags = new Set(listOf(input).map(parseTag))
  if (tags.size > tagsMax) throw badTags(`at most ${tagsMax} tags`, `${tags.size} tags`)
  return tags.size === 0 ? null : [...tags]
}

/** Checks tags to filter by: a filter of a wrong form would let every event through. */
export function checkTagFilter(tags: unknown): void {
  if (Array.isArray(tags) && tags.every((tag) => typeof tag === 'string')) return
  throw badOption('tags', 'a list of texts', tags)
}

/** The text `"a, b,"` means two tags; in a list an empty tag is an error. */
function listOf(input: unknown): readonly unknown[] {
  if (Array.isArray(input)) {
    if (input.length <= piecesMax) return input
    throw badTags(`at most ${tagsMax} tags`, input)
  }
  if (typeof input === 'string') {
    if (!isLongerThan(input, tagsTextCharsMax)) return input.split(',').filter((piece) => piece.trim() !== '')
    throw badTags(`text of at most ${tagsTextCharsMax} characters`, input)
  }
  throw badTags('text or a list of texts', input)
}

function parseTag(input: unknown): string {
  if (typeof input !== 'string') throw badTags('texts', input)
  const tag = input.trim()
  if (tag.length < 1 || isLongerThan(tag, tagCharsMax))
    throw badTags(`of 1 to ${tagCharsMax} characters each`, input)
  if (tag.includes(',')) throw badTags('without commas', input)
  if (!isStorable(tag)) throw badTags('without NUL and lone surrogates', input)
  return tag
}

function badTags(expected: string, value: unknown): Error {
  return badEvent('tags', expected, value)
}
