import type { Route, RouteResponse } from '../route.ts'
import { problem } from '../schemas.ts'
import { curlLine } from './curl.ts'
import type { Contents, OpenApiDocument, Operation, RequestBody, Response } from './document.ts'
import { errorExamples, errorResponses, errorWords } from './error-answers.ts'
import { exampleOf } from './examples.ts'
import { NamedSchemas } from './json-schemas.ts'
import { parametersOf } from './route-parameters.ts'

/** The OpenAPI 3.1 document, made only of the routes and their schemas. */
export function openApiDocument(routes: readonly Route[], { version }: { version: string }): OpenApiDocument {
  const schemas = new NamedSchemas()
  // Bodies come first: a schema used both for requests and for answers is written as requests may have it.
  const bodies = new Map(routes.map((route) => [route, requestBodyOf(route, schemas)]))
  schemas.write(problem, 'output')
  const paths: Record<string, Record<string, Operation>> = {}
  for (const route of routes) {
    paths[route.path] ??= {}
    const operations = paths[route.path] as Record<string, Operation>
    operations[route.method.toLowerCase()] = operationOf(route, bodies.get(route), schemas)
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Posthorn', version, description },
    servers: [{ url: '/' }],
    tags: [...new Set(routes.map(tagOf))].map((name) => ({ name })),
    paths,
    components: {
      schemas: schemas.all(),
      examples: errorExamples(routes),
      securitySchemes: { bearer },
    },
    'x-error-codes': errorWords(),
  }
}

const description =
  'A durable event hub on PostgreSQL: publish once, deliver at least once, in order per key. ' +
  'Bodies are JSON in UTF-8, times are ISO 8601 in UTC, whole numbers are below 2^53, and texts outside payloads contain neither NUL nor lone surrogates. Every answer has an `X-Request-Id`: the one that the request had, or a new one. ' +
  'Errors are problems as in RFC 9457, with a `code` from the error table that does not change between versions. `HEAD` is answered like `GET`, without the body.'

const bearer = {
  type: 'http',
  scheme: 'bearer',
  description:
    'An API key, as `Authorization: Bearer ph_…`. The key needs the scope of the route; the scope `admin` includes all others. While no API keys exist, requests from the same machine need none.',
}

function operationOf(route: Route, requestBody: RequestBody | undefined, schemas: NamedSchemas): Operation {
  const { name, summary, description, scope } = route
  const parameters = parametersOf(route)
  const answers = Object.entries(route.responses).map(
    ([status, response]) => [status, responseOf(response, schemas, { name, status })] as const,
  )
  return {
    operationId: name,
    tags: [tagOf(route)],
    summary,
    ...(description && { description }),
    'x-scope': scope,
    security: scope === null ? [] : [{ bearer: [scope] }],
    ...(parameters.length > 0 && { parameters }),
    ...(requestBody && { requestBody }),
    responses: merge([...answers, ...errorResponses(route)]),
    'x-codeSamples': [{ lang: 'Shell', source: curlLine(route, parameters, requestBody) }],
  }
}

function tagOf({ path }: Route): string {
  return path.split('/')[1] ?? ''
}

function requestBodyOf({ name, body }: Route, schemas: NamedSchemas): RequestBody | undefined {
  if (body === undefined) return undefined
  const size = body.bytesMax === undefined ? {} : { description: `Up to ${grouped(body.bytesMax)} bytes.` }
  if (body.kind === 'bytes') {
    const contents = Object.entries(body.contents).map(([type, { schema, example }]) => [
      type,
      { schema: schemas.write(schema, 'input'), ...(example !== undefined && { example }) },
    ])
    return { required: true, ...size, content: Object.fromEntries(contents) }
  }
  const schema = schemas.write(body.schema, 'input')
  const example = body.example ?? exampleOf(schema, schemas, name)
  return { required: body.isOptional !== true, ...size, content: { 'application/json': { schema, example } } }
}

function grouped(count: number): string {
  return count.toLocaleString('en-US')
}

function responseOf(
  response: RouteResponse,
  schemas: NamedSchemas,
  where: { name: string; status: string },
): Response {
  const { description, schema, contentType, headers = {} } = response
  const described = Object.entries(headers).map(([name, description]) => [
    name,
    { description, schema: { type: 'string' } },
  ])
  return {
    description,
    ...(described.length > 0 && { headers: Object.fromEntries(described) }),
    ...((schema ?? contentType) !== undefined && { content: contentOf(response, schemas, where) }),
  }
}

function contentOf(
  { schema, contentType, otherContents = {}, example }: RouteResponse,
  schemas: NamedSchemas,
  { name, status }: { name: string; status: string },
): Contents {
  const type = contentType?.split(';', 1)[0] ?? 'application/json'
  if (schema === undefined) return { [type]: { ...(example !== undefined && { example }) } }
  const written = schemas.write(schema, 'output')
  // An example made from a schema looks like a success, so errors get none.
  const isMadeUp = example === undefined && type.endsWith('json') && status < '300'
  const shown = isMadeUp ? exampleOf(written, schemas, `${name} ${status}`) : example
  const others = Object.entries(otherContents).map(([other, its]) => [
    other,
    { schema: schemas.write(its, 'output') },
  ])
  return {
    [type]: { schema: written, ...(shown !== undefined && { example: shown }) },
    ...Object.fromEntries(others),
  }
}

/** A status may be both an answer of the route and an error. */
function merge(
  responses: readonly (readonly [status: string, response: Response])[],
): Record<string, Response> {
  const merged: Record<string, Response> = {}
  for (const [status, response] of responses) {
    const before = merged[status]
    merged[status] =
      before === undefined
        ? response
        : {
            description: `${before.description} ${response.description}`,
            headers: { ...before.headers, ...response.headers },
            content: { ...before.content, ...response.content },
          }
  }
  return merged
}
