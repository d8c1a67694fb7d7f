import { z } from 'zod'
import { docsPage } from '../docs/docs-page.ts'
import { openApiDocument } from '../docs/openapi.ts'
import { defineRoute, type Route } from '../route.ts'

/** The documentation of all routes, for programs and for people. It is made at the first request. */
export function docsRoutes(routes: () => readonly Route[], { version }: { version: string }): Route[] {
  const document = once(() => openApiDocument(routes(), { version }))
  const json = once(() => JSON.stringify(document()))
  const page = once(() => docsPage(document()))
  return [
    defineRoute('GET /openapi.json', 'getOpenApi', null, {
      summary: 'Get this API as an OpenAPI 3.1 document',
      responses: {
        200: {
          description: 'The document.',
          schema: z.looseObject({ openapi: z.string().describe('The version of OpenAPI.') }),
          example: { openapi: '3.1.0', info: { title: 'Posthorn', version } },
        },
      },
      handle: () => ({ status: 200, text: json(), headers: noSniffing }),
    }),
    defineRoute('GET /docs', 'getDocs', null, {
      summary: 'Get this API as a page to read',
      responses: { 200: { description: 'The page.', schema: z.string(), contentType: 'text/html' } },
      handle: () => ({
        status: 200,
        text: page(),
        contentType: 'text/html; charset=utf-8',
        headers: { ...noSniffing, 'content-security-policy': policy },
      }),
    }),
  ]
}

const noSniffing = { 'x-content-type-options': 'nosniff' }
const policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'"

function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}
