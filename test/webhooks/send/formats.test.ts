import { expect, test } from 'vitest'
import { verify } from '../../../src/webhooks/index.ts'
import { useServers } from '../../support/http.ts'
import { openDispatching, openInbox, subscribe } from './setup.ts'

const servers = useServers('dispatcher_formats')

/** What a parser would not give back as it was. */
const odd = '{ "b":1.0, "a" : 1e400,\n"a":12345678901234567890, "n":"\\u0000\\ud800 \\/ ä€😀", "e":[ ] }'

test.each([
  ['an object of odd bytes', odd],
  ['a scalar', '1.50e+3'],
  ['null', 'null'],
])('every format carries %s byte for byte', async (_, payload) => {
  const server = await openDispatching(servers)
  const formats = ['standard', 'raw', 'cloudevents', 'cloudevents-binary'] as const
  const inboxes = await Promise.all(
    formats.map(async (format) => {
      const inbox = await openInbox()
      const { secret } = await subscribe(server, inbox.url, { format })
      return { inbox, secret }
    }),
  )
  const answer = await server.call('POST', '/events', `{"type":"note.made","payload":${payload}}`)
  const received = await Promise.all(
    inboxes.map(async ({ inbox, secret }) => {
      const [delivered] = await inbox.count(1)
      const { headers, body } = delivered as NonNullable<typeof delivered>
      expect(verify(body, headers as Record<string, string>, secret)).toBeTruthy()
      return { headers, body }
    }),
  )
  const [standard, raw, structured, binary] = received as [Got, Got, Got, Got]
  const { created_at: createdAt } = answer.json

  expect(standard.body).toBe(`{"type":"note.made","timestamp":"${createdAt}","data":${payload}}`)
  expect(standard.headers['content-type']).toBe('application/json')
  expect(raw.body).toBe(payload)
  expect(raw.headers['content-type']).toBe('application/json')
  expect(structured.headers['content-type']).toMatch(/^application\/cloudevents\+json/)
  expect(structured.body).toContain(`"data":${payload}`)
  expect(JSON.parse(structured.body.replace(`"data":${payload}`, '"data":0'))).toMatchObject({
    ...{ specversion: '1.0', type: 'note.made', id: expect.any(String), source: expect.any(String), data: 0 },
  })
  expect(binary.body).toBe(payload)
  expect(binary.headers).toMatchObject({
    ...{ 'ce-specversion': '1.0', 'ce-type': 'note.made', 'content-type': 'application/json' },
    ...{ 'ce-id': expect.any(String), 'ce-source': expect.any(String) },
  })
})

type Got = { headers: Record<string, string | string[] | undefined>; body: string }
