import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { useServers } from './support/http.ts'

const servers = useServers('readme')

test('the curl lines of the README publish, lease and complete an event, and subscribe a webhook', async () => {
  const secretKey = Buffer.alloc(32, 1).toString('base64')
  const server = await servers.open({ hub: { secretKey, dispatcher: false } })
  const lines = curlLines(readFileSync(new URL('../README.md', import.meta.url), 'utf8'))
  expect(lines).toHaveLength(5)
  const answers = []
  for (const { path, body } of lines) {
    // As curl sends it: a body without a content type of ours.
    const headers = { 'content-type': 'application/x-www-form-urlencoded' }
    answers.push(
      await server.call(body === undefined ? 'GET' : 'POST', path, body, body === undefined ? {} : headers),
    )
  }
  expect(answers.map(({ status }) => status)).toEqual([201, 200, 200, 201, 202])
  expect(answers.map(({ json }) => json.status ?? json.action)).toEqual([
    'PENDING',
    'PROCESSING',
    'COMPLETED',
    'active',
    'PENDING',
  ])
  expect(answers[3]?.json.secret).toMatch(/^whsec_/)
})

function curlLines(readme: string): { path: string; body: string | undefined }[] {
  return [...readme.matchAll(/^curl -s '?localhost:8080([^ ']+)'?(?: -d '([^']+)')?/gm)].map(
    ([, path = '', body]) => ({
      ...{ path, body },
    }),
  )
}
