import { expect, test } from 'vitest'
import { useServers } from '../support/http.ts'

const servers = useServers('head')
const paths = [
  '/livez',
  '/readyz',
  '/healthz',
  '/docs',
  '/openapi.json',
  '/metrics',
  '/events',
  '/queues/work',
]

test.each(paths)('HEAD %s is answered like GET, without the body', async (path) => {
  const { call } = await servers.open()
  const read = await call('GET', path)
  const head = await call('HEAD', path)
  expect([head.status, head.text]).toEqual([200, ''])
  expect(head.headers.get('content-type')).toBe(read.headers.get('content-type'))
  expect(Number(head.headers.get('content-length'))).toBeGreaterThan(0)
})

test('HEAD needs the scope of GET, and a path that cannot be read says what it answers', async () => {
  const { call } = await servers.open({ adminKey: 'a key of sixteen letters' })
  expect(await call('HEAD', '/metrics')).toMatchObject({ status: 401, text: '' })
  expect((await call('DELETE', '/livez')).headers.get('allow')).toBe('GET, HEAD')
  expect((await call('HEAD', '/queues/work/pause')).headers.get('allow')).toBe('POST')
})
