import { expect, test } from 'vitest'
import { apiRoutes } from '../../src/http/routes/index.ts'
import { useServers } from '../support/http.ts'

/** What a path answers, and what it says of every other method. */

const servers = useServers('methods')
const all = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'QUERY', 'OPTIONS', 'PROPFIND']

test('GET of a path that only takes POST is 405 with Allow, also where an id could stand', async () => {
  const { call } = await servers.open()
  const paths = ['/events/batch', '/events/settle', '/events/cancel', '/dlq/retry', '/events/1/complete']
  for (const path of [...paths, '/events/batch/', '/events/batch?include_logs=true', '/events/b%61tch']) {
    for (const method of ['GET', 'HEAD', 'PUT', 'DELETE']) {
      const { status, headers, json } = await call(method, path)
      expect({ status, allow: headers.get('allow') }, `${method} ${path}`).toEqual({
        status: 405,
        allow: 'POST',
      })
      if (method !== 'HEAD')
        expect(json).toMatchObject({ code: 'method_not_allowed', method, allowed: 'POST' })
    }
  }
  for (const path of ['/nothing', '/nothing%ff', '/%zz/batch']) {
    expect([400, 404], path).toContain((await call('GET', path)).status)
  }
  expect(await call('GET', '/events/batches')).toMatchObject({ status: 422, json: { field: 'id' } })
})

test('every path answers 405 to the methods that it does not have, and names those that it has', async () => {
  const { call, hub } = await servers.open()
  const routes = apiRoutes(hub, { isDraining: () => false, version: '0.0.0' })
  for (const path of new Set(routes.map((route) => route.path))) {
    const own = routes.filter((route) => route.path === path).map((route) => route.method as string)
    const answered = new Set(own.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])))
    for (const method of all.filter((one) => !answered.has(one))) {
      const { status, headers } = await call(method, path.replace(/\{\w+\}/g, '1'))
      const allow = headers.get('allow')?.split(', ') ?? []
      expect({ status, allow: allow.sort() }, `${method} ${path}`).toEqual({
        status: 405,
        allow: [...answered].sort(),
      })
    }
  }
})
