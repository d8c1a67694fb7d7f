import type { FastifyInstance } from 'fastify'
import { PosthornError } from '../errors.ts'
import type { Route } from './route.ts'

type Method = Route['method']

/** A GET route also answers HEAD, unless the path has a HEAD route of its own. */
export function methodsOf({ method, path }: Route, routes: readonly Route[]): Method[] {
  const hasOwnHead = routes.some((other) => other.path === path && other.method === 'HEAD')
  return method === 'GET' && !hasOwnHead ? ['GET', 'HEAD'] : [method]
}

/**
 * `GET /events/batch` would be read as the event `batch`, since only POST has a route of that exact path. A path that a route
 * names is never an id, whatever the method.
 */
export function reserveNamedPaths(app: FastifyInstance, routes: readonly Route[]): void {
  for (const path of new Set(routes.map((route) => route.path))) {
    if (path.includes('{')) continue
    const own = methodsAt(path, routes)
    const others = routes
      .filter((route) => route.path !== path && matches(route.path, path))
      .flatMap((route) => methodsOf(route, routes))
      .filter((method) => !own.includes(method))
    const method = [...new Set(others)]
    if (method.length > 0) app.route({ method, url: path, handler: (_, reply) => reply.callNotFound() })
  }
}

/** The error for a request that no route serves. */
export function missingRoute(
  routes: readonly Route[],
  { method, path }: { readonly method: string; readonly path: string },
): PosthornError {
  const plain = decoded(path).replace(/\/$/, '')
  const named =
    routes.find((route) => route.path === plain) ?? routes.find((route) => matches(route.path, plain))
  const shown = path.slice(0, 200)
  if (named === undefined) return new PosthornError('NO_ROUTE', { method, path: shown })
  const allowed = methodsAt(named.path, routes).join(', ')
  return new PosthornError('METHOD_NOT_ALLOWED', { path: shown, method, allowed })
}

/** The path as the router decodes it; the router ignores what follows a `#`. */
function decoded(path: string): string {
  const [read = path] = path.split('#', 1)
  try {
    return decodeURI(read)
  } catch (error) {
    if (error instanceof URIError) return read
    throw error
  }
}

function methodsAt(path: string, routes: readonly Route[]): Method[] {
  const own = routes.filter((route) => route.path === path).flatMap((route) => methodsOf(route, routes))
  return [...new Set(own)]
}

function matches(pattern: string, path: string): boolean {
  const parts = path.split('/')
  const expected = pattern.split('/')
  return (
    expected.length === parts.length &&
    expected.every((part, place) => part.startsWith('{') || part === parts[place])
  )
}
