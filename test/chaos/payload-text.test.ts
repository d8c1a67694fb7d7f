import { expect, test } from 'vitest'

interface Texts {
  readonly payloadTextOf: (planned: { u: number; payload: object }) => string
  readonly memberText: (text: string, name: string) => string | undefined
  readonly elementTexts: (text: string) => string[]
  readonly withMember: (fields: object, name: string, text: string) => string
}
const { payloadTextOf, memberText, elementTexts, withMember } = (await import(
  new URL('./payload-text.js', import.meta.url).href
)) as Texts

const fragile = payloadTextOf({ u: 3, payload: { u: 3, quoted: '"}],{', f: true } })

test('some payloads are written so that parsing and printing would change them', () => {
  expect(JSON.parse(fragile)).toMatchObject({ u: 3, f: true })
  expect(JSON.stringify(JSON.parse(fragile))).not.toBe(fragile)
})

test('the text of a payload is found as it stands in an answer', () => {
  const one = withMember({ id: 1, nested: { payload: [1, '}'] } }, 'payload', fragile)
  expect(memberText(one, 'payload')).toBe(fragile)
  expect(memberText(` { "payload" : 1.0 , "id":2}`, 'payload')).toBe('1.0')
  expect(memberText(one, 'none')).toBeUndefined()
  expect(elementTexts(`[${one}, ${one} ]`)).toEqual([one, one])
  expect(elementTexts('[]')).toEqual([])
  expect(elementTexts(one)).toEqual([one])
})
