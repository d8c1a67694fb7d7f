import { expect, test } from 'vitest'
import { useServers } from '../support/http.ts'
import { testAnswers } from './fuzz/answers.ts'
import { complaintsOf, payloadComplaints } from './fuzz/checks.ts'
import { sendUntilClosed } from './fuzz/connection.ts'
import { brokenRequests, hostileBodies, hostilePayloads } from './fuzz/hostile.ts'

const servers = useServers('hostile_fuzz')

// The first of those in fuzz.long.test.ts.
testAnswers({ requests: 200, seed: 1, vital: { 'publishEvent 201': 1 }, comparedMin: 1 })

test('hostile bodies are refused, or stored byte for byte', async () => {
  const server = await servers.open()
  const wrong: string[] = []
  for (const { what, body, expected, headers = {} } of [...hostilePayloads, ...hostileBodies]) {
    const { status, text, json } = await server.call('POST', '/events', body, headers)
    if (expected !== 'stored') {
      if (status !== expected) wrong.push(`${what}: ${status} ${text.slice(0, 300)}`)
      continue
    }
    const read = await server.call('GET', `/events/${json?.id}`)
    const payload = String(body).slice('{"type":"hostile","payload":'.length, -1)
    if (status !== 202) wrong.push(`${what}: ${status} ${text.slice(0, 300)}`)
    else wrong.push(...payloadComplaints(read.text, payload).map((complaint) => `${what}: ${complaint}`))
  }
  expect(wrong).toEqual([])
  expect(({} as Record<string, unknown>).polluted).toBeUndefined()
})

test('what is no HTTP is answered as the rest is, and cut off', async () => {
  const server = await servers.open()
  const { host, port } = new URL(server.url)
  const wrong: string[] = []
  for (const [what, text, isCutOff = false] of brokenRequests(host)) {
    const answers = await sendUntilClosed(Number(port), Buffer.from(text, 'latin1'), { isCutOff })
    if (answers.length === 0) wrong.push(`${what}: no answer`)
    for (const answer of answers)
      wrong.push(
        ...complaintsOf(answer).map(
          (complaint) => `${what}: ${answer.status} ${complaint} ${answer.body.toString().slice(0, 200)}`,
        ),
      )
  }
  expect(wrong.join('\n')).toBe('')
  expect((await server.call('GET', '/readyz')).status).toBe(200)
})
