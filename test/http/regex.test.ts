import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { isBase64, isJsonType, isUtf8TextType, mediaTypeOf } from '../../src/cloudevents/content.ts'
import { decodeHeaderValue, encodeHeaderValue } from '../../src/cloudevents/header.ts'
import { isCloudEvent } from '../../src/cloudevents/read.ts'
import { isKeyId, parseKey } from '../../src/domain/api-key.ts'
import { parseEvent } from '../../src/domain/event.ts'
import { parseDeliveryId } from '../../src/domain/id.ts'
import { readElements, readMembers } from '../../src/domain/json-members.ts'
import { parseLeaseToken } from '../../src/domain/lease-token.ts'
import { checkPattern, matchesPattern, patternsFor } from '../../src/domain/pattern.ts'
import { checkPayloadText } from '../../src/domain/payload.ts'
import { defineSubscription } from '../../src/domain/subscription.ts'
import { parseTags } from '../../src/domain/tags.ts'
import { isLongerThan, isStorable, toStorable } from '../../src/domain/text.ts'
import { snakeCase } from '../../src/domain/wire-name.ts'
import { isLocalName } from '../../src/http/gate.ts'
import { newEvent } from '../../src/http/publish-schemas.ts'
import { readEvent } from '../../src/http/read-event.ts'
import { readTags } from '../../src/http/read-request.ts'
import { requestIdOf } from '../../src/http/request-id.ts'
import { cancelBody } from '../../src/http/routes/event-action-routes.ts'
import { claimBody, eventId, moment, whole } from '../../src/http/schemas.ts'
import { newSubscriber } from '../../src/http/subscriber-schemas.ts'

/** No text, however it is made, keeps a check busy: 100 KB take 10 ms at most. */

const msMax = 10
const chars = 100_000

describe('every regular expression of the domain and of the API', () => {
  const found = ['src/domain', 'src/http', 'src/cloudevents', 'src/webhooks'].flatMap(expressionsBelow)

  test('is found', () => {
    expect(found.length).toBeGreaterThan(50)
    const sources = found.map(({ form }) => form.source)
    for (const known of ['^\\d{1,16}$', '^\\w+$', '={1,2}$', '[\\0\\p{Surrogate}]', '\\/$'])
      expect(sources).toContain(known)
  })

  test('is done with 100 KB of anything within 10 ms', { timeout: 120_000 }, () => {
    const texts = hostileTexts(starts)
    const slow = found.flatMap(({ where, form }) =>
      texts
        .filter(({ text }) => !isQuick(() => text.search(form)))
        .map(({ what }) => `${where} ${form} takes too long for ${what}`),
    )
    expect(slow).toEqual([])
  })
})

const checks: Record<string, (text: string) => unknown> = {
  'a type': (text) => parseEvent({ type: text, payload: 1 }),
  'a title': (text) => parseEvent({ type: 'a', title: text, payload: 1 }),
  'a time': (text) => parseEvent({ type: 'a', timestamp: text, payload: 1 }),
  'a traceparent': (text) => parseEvent({ type: 'a', traceparent: text, payload: 1 }),
  'an attribute': (text) => parseEvent({ type: 'a', attributes: { a: text }, payload: 1 }),
  'a fingerprint': (text) => parseEvent({ type: 'a', idempotencyFingerprint: text, payload: 1 }),
  'a payload': (text) => checkPayloadText(text),
  tags: (text) => parseTags(text),
  'tags in a query': (text) => readTags(text),
  'a pattern': (text) => checkPattern(text),
  'a type against a pattern': (text) => matchesPattern(`${text}.*`, text),
  'the patterns for a type that was checked': (text) => patternsFor(text.slice(0, 100)),
  'the name of a subscription': (text) => defineSubscription('pull', [], { name: text }),
  'a lease token': (text) => parseLeaseToken(text),
  'the id of a delivery': (text) => parseDeliveryId(text),
  'an API key': (text) => [parseKey(text), parseKey(`ph_${text}`), isKeyId(text)],
  members: (text) => readMembers(text, 'it'),
  'members with a long name': (text) => readMembers(`{${inJson(text)}:1}`, 'it'),
  elements: (text) => readElements(text, 'it', 1_000),
  'whether it can be stored': (text) => [isStorable(text), isLongerThan(text, 60_000)],
  'what can be stored of it': (text) => toStorable(text, 4_000),
  'a content type': (text) => [isJsonType(text), isUtf8TextType(`text/${text}`), mediaTypeOf(text)],
  'a content type of a request': (text) => isCloudEvent({ 'content-type': text }),
  base64: (text) => isBase64(text),
  // No header is longer than 16 KB, and no attribute than 4,096 characters.
  'a header': (text) => decodeHeaderValue(text.slice(0, 16_384)),
  'a header to send': (text) => encodeHeaderValue(text.slice(0, 4_096)),
  'a host': (text) => isLocalName(text),
  'a request id': (text) => requestIdOf({ headers: { 'x-request-id': text } }),
  'a field name': (text) => snakeCase(text.slice(0, 200)),
  'a whole number': (text) => whole(1, 10).safeParse(text),
  'an event id': (text) => eventId.safeParse(text),
  'a time in a query': (text) => moment().safeParse(text),
  'an event in JSON': (text) => readEvent({ headers: {}, body: Buffer.from(text), scope: '' }),
  'an event with a long field': (text) =>
    readEvent({
      headers: {},
      body: Buffer.from(`{"payload":1,"title":${inJson(text)},${inJson(text)}:1}`),
      scope: '',
    }),
  'an event of another content type': (text) =>
    readEvent({ headers: { 'content-type': text }, body: Buffer.from('{}'), scope: '' }),
  'an event with a trace': (text) =>
    readEvent({ headers: { traceparent: text }, body: Buffer.from('{"type":"a","payload":1}'), scope: '' }),
  'the fields of an event': (text) => newEvent.safeParse({ type: text, traceparent: text, run_at: text }),
  'the fields of a claim': (text) => claimBody.safeParse({ worker_id: text, lease_token: text, [text]: 1 }),
  'the fields of a filter': (text) => cancelBody.safeParse({ type: text, tags: [text], created_from: text }),
  'the fields of a subscription': (text) =>
    newSubscriber.safeParse({ name: text, event_types: [text], tags: text }),
}

describe('a check', () => {
  test.each(Object.entries(checks))('of %s takes no longer than 10 ms', (_, check) => {
    const slow = hostileTexts(['']).filter(({ text }) => !isQuick(() => tryTo(() => check(text))))
    expect(slow.map(({ what }) => what)).toEqual([])
  })
})

/** By the processor's clock and the best of a few runs: others use this machine as well, and what is slow is slow each time. */
function isQuick(work: () => unknown): boolean {
  for (let run = 0; run < 8; run++) {
    const before = process.cpuUsage()
    work()
    const { user, system } = process.cpuUsage(before)
    if (user + system <= msMax * 1_000) return true
  }
  return false
}

/** Of 100 KB at most, whatever it escapes. */
function inJson(text: string): string {
  return JSON.stringify(text.slice(0, chars / 6))
}

/** Checks may refuse: what counts is how soon. */
function tryTo(check: () => unknown): void {
  try {
    check()
  } catch (error) {
    if (!(error instanceof Error)) throw error
  }
}

const starts = ['', '"', 'a/', ';', '2026-01-01T00:00:00.']
const units = [
  ...[
    'a',
    'A',
    '0',
    '.',
    '-',
    '_',
    ' ',
    '\t',
    '\n',
    ',',
    ', ',
    ';',
    '=',
    '+',
    '/',
    '"',
    '\\',
    '\\a',
    '%',
    '%41',
    '*',
  ],
  ...[
    '[',
    '{',
    '{a}',
    ':a',
    '\0',
    '\ud800',
    'é',
    '😀',
    '.0',
    '.1',
    'a.',
    'a,',
    ', received ',
    '; charset',
    '\n    at ',
  ],
]
const ends = ['', '\0']

function hostileTexts(starts: readonly string[]): { what: string; text: string }[] {
  return starts.flatMap((start) =>
    units.flatMap((unit) =>
      ends.map((end) => ({
        what: JSON.stringify(`${start}(${unit})*${end}`),
        text: start + unit.repeat(Math.floor(chars / unit.length)) + end,
      })),
    ),
  )
}

interface Expression {
  readonly where: string
  readonly form: RegExp
}

/** Literals, where an expression can begin. */
const literal =
  /(?<=[=(,:?!&|[]\s*|\breturn\s+)\/(?![*/])((?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\[\n])+)\/([dgimsuy]*)(?=\s*[,;).\n\]])/g

function expressionsBelow(folder: string): Expression[] {
  const root = fileURLToPath(new URL('../../', import.meta.url))
  const files = readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
  return files
    .filter((file) => file.endsWith('.ts'))
    .flatMap((file) =>
      [...readFileSync(join(root, folder, file), 'utf8').matchAll(literal)].map(([, source = '', flags]) => ({
        where: `${folder}/${file}`,
        form: new RegExp(source, flags),
      })),
    )
}
