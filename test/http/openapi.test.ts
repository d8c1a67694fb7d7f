import { readFileSync } from 'node:fs'
import { Validator } from '@seriousme/openapi-schema-validator'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { errorCodes } from '../../src/errors.ts'
import { docsPage } from '../../src/http/docs/docs-page.ts'
import type { Content, Operation } from '../../src/http/docs/document.ts'
import { words } from '../../src/http/docs/examples.ts'
import { fieldMeanings } from '../../src/http/docs/field-meanings.ts'
import type { JsonSchema } from '../../src/http/docs/json-schemas.ts'
import { docsMarkdown } from '../../src/http/docs/markdown.ts'
import { openApiDocument } from '../../src/http/docs/openapi.ts'
import { defineRoute, type Route } from '../../src/http/route.ts'
import { apiRoutes } from '../../src/http/routes/index.ts'
import { problem } from '../../src/http/schemas.ts'
import { createServer } from '../../src/http/server.ts'
import type { Hub } from '../../src/hub.ts'
import { createLogger } from '../../src/observe/log.ts'

// No handler of these is called but those of the docs, so there need not be a hub behind them.
const routes: Route[] = apiRoutes({} as Hub, { isDraining: () => false, version: '1.2.3' })
const document = openApiDocument(routes, { version: '1.2.3' })
const page = docsPage(document)

describe('the OpenAPI document', () => {
  test('is valid OpenAPI 3.1', async () => {
    const validator = new Validator()
    const { valid, errors } = await validator.validate(
      structuredClone(document) as unknown as Record<string, unknown>,
    )
    expect({ valid, errors }).toEqual({ valid: true, errors: undefined })
    expect(validator.version).toBe('3.1')
  })

  test('has each route once, under its name, and nothing else', () => {
    const described = operations().map(({ method, path, operation }) => [method, path, operation.operationId])
    const served = routes.map(({ method, path, name }) => [method, path, name])
    expect(described.map(String).sort()).toEqual(served.map(String).sort())
    expect(new Set(routes.map(({ name }) => name)).size).toBe(routes.length)
  })

  test('refers to nothing that it does not have', () => {
    const refs = valuesOf(document, '$ref') as string[]
    expect(refs).toContain('#/components/schemas/Problem')
    expect(refs.filter((ref) => lookUp(ref) === undefined)).toEqual([])
  })

  test('keeps nothing of the way it was made', () => {
    const text = JSON.stringify(document)
    for (const word of ['$schema', '$id', '$defs', '__shared', '__schema'])
      expect(text).not.toContain(`"${word}"`)
    expect(text).not.toContain(String(Number.MAX_SAFE_INTEGER))
  })

  test('names every parameter that a route reads', () => {
    const read = routes.map(({ name, path, params, query, queryPrefix }) => {
      expect(Object.keys(params?.shape ?? {})).toEqual(
        [...path.matchAll(/\{(\w+)\}/g)].map(([, part]) => part),
      )
      const open = queryPrefix === undefined ? [] : [`${queryPrefix}<path>`]
      return [name, [...Object.keys(params?.shape ?? {}), ...Object.keys(query?.shape ?? {}), ...open]]
    })
    const named = operations().map(({ operation: { operationId, parameters = [] } }) => [
      operationId,
      parameters.map(({ name }) => name),
    ])
    expect(Object.fromEntries(named)).toEqual(Object.fromEntries(read))
  })

  test('says of every field, parameter, answer and header what it means', () => {
    const fields = Object.entries(document.components.schemas).flatMap(([name, schema]) =>
      undescribed(schema, name),
    )
    const parameters = operations().flatMap(({ method, path, operation }) =>
      (operation.parameters ?? [])
        .filter(({ description = '' }) => description.length < 10)
        .map(({ name }) => `${method} ${path}: ${name}`),
    )
    const answers = operations().flatMap(({ operation: { operationId, responses } }) =>
      Object.entries(responses)
        .filter(([, { description }]) => description.length < 7)
        .map(([status]) => `${operationId} ${status}`),
    )
    expect([...fields, ...parameters, ...answers]).toEqual([])
  })

  test('has no meaning for a field that is nowhere to be found', () => {
    const text = JSON.stringify(document)
    const names = Object.keys(fieldMeanings).map((key) => key.replace(/^.*\./, ''))
    expect(names.filter((name) => !text.includes(`"${name}"`))).toEqual([])
    expect(
      Object.entries(fieldMeanings).filter(([, meaning]) => !text.includes(JSON.stringify(meaning))),
    ).toEqual([])
  })

  test('says what a parameter may be, not only that it is text', () => {
    const { parameters = [] } = operationOf('subscribe')
    const byName = Object.fromEntries(parameters.map((one) => [one.name, one]))
    expect(byName.limit).toMatchObject({
      required: false,
      schema: { type: 'integer', minimum: 1, maximum: 1000 },
    })
    expect(byName.suspects).toMatchObject({ schema: { type: 'string', enum: ['true', 'false'] } })
    expect(byName.worker_id).toMatchObject({
      required: true,
      description: expect.stringContaining('The name of the worker'),
    })
  })

  test('asks for the scope of each route, and for no key where there is none', () => {
    for (const { name, scope } of routes) {
      const { security, 'x-scope': said } = operationOf(name)
      expect({ security, said }).toEqual({
        security: scope === null ? [] : [{ bearer: [scope] }],
        said: scope,
      })
    }
  })

  test('has an example of every body and of every answer in JSON', () => {
    const bare = operations().flatMap(({ operation: { operationId, requestBody, responses } }) => {
      const bodies = requestBody === undefined ? [] : [Object.values(requestBody.content)]
      const answers = Object.entries(responses)
        .filter(([status]) => status < '300')
        .flatMap(([, { content = {} }]) =>
          content['application/json'] ? [[content['application/json']]] : [],
        )
      const lacks = [...bodies, ...answers].some((all) => all.every(({ example }) => example === undefined))
      return lacks ? [operationId] : []
    })
    expect(bare).toEqual([])
  })

  test('has no example that does not fit its schema', () => {
    const wrong = routes.flatMap((route) => {
      const { requestBody, responses } = operationOf(route.name)
      const sent = Object.entries(requestBody?.content ?? {}).map(
        ([type, content]) => [bodySchema(route, type), content] as const,
      )
      const answered = Object.entries(route.responses).map(
        ([status, { schema }]) => [schema, ownContent(responses[status]?.content)] as const,
      )
      return [...sent, ...answered].flatMap(([schema, content]) => misfit(route, schema, content))
    })
    expect(wrong).toEqual([])
  })

  test('has no word for an example that is nowhere to be found', () => {
    const text = JSON.stringify(document)
    const fields = new Set(Object.keys(words).map((key) => key.replace(/^.*\./, '')))
    expect([...fields].filter((field) => !text.includes(`"${field}"`))).toEqual([])
    const answers = routes.flatMap(({ name, responses }) =>
      Object.keys(responses).map((one) => `${name} ${one}`),
    )
    const owners = [
      ...Object.keys(document.components.schemas),
      ...document.tags.map(({ name }) => name),
      ...answers,
    ]
    const named = Object.keys(words).filter((key) => key.includes('.'))
    expect(named.filter((key) => !owners.includes(key.replace(/\.\w+$/, '')))).toEqual([])
  })

  test('has the errors of each route, by status, each with a problem that could be met', () => {
    for (const { name, errors = [], scope } of routes) {
      const codes = codesOf(operationOf(name))
      expect(codes).toEqual(expect.arrayContaining([...errors, 'BAD_REQUEST', 'INTERNAL'].map(lower)))
      const gate = ['unauthorized', 'forbidden', 'foreign_request', 'rate_limited', 'database_unavailable']
      expect(gate.filter((code) => codes.includes(code))).toEqual(scope === null ? [] : gate)
    }
    for (const [code, { value }] of Object.entries(document.components.examples)) {
      expect(problem.parse(value).code).toBe(code)
      expect(JSON.stringify(value)).not.toMatch(/undefined|null|\{\w+\}/)
    }
  })

  test('puts every error under the status that it has', () => {
    for (const { operation } of operations()) {
      for (const [status, { content = {} }] of Object.entries(operation.responses)) {
        const codes = Object.keys(content['application/problem+json']?.examples ?? {})
        expect(codes.map((code) => String(document['x-error-codes'][code]?.status))).toEqual(
          codes.map(() => status),
        )
      }
    }
  })

  test('says of writes, and only of them, that a commit may be of unknown fate', () => {
    expect(codesOf(operationOf('publishEvent'))).toContain('commit_unknown')
    expect(codesOf(operationOf('subscribe'))).toContain('commit_unknown')
    expect(codesOf(operationOf('getEvent'))).not.toContain('commit_unknown')
    expect(codesOf(operationOf('subscribeHead'))).not.toContain('commit_unknown')
  })

  test('lets answers have more fields one day, and bodies none that are not known', () => {
    const { schemas } = document.components
    expect(schemas.StoredEvent).not.toHaveProperty('additionalProperties')
    expect(schemas.Complete).toHaveProperty('additionalProperties', false)
    expect(schemas.NewSubscriber?.required).not.toContain('via')
  })
})

describe('the page', () => {
  test('has an anchor for every code of the error table, where problems lead to', () => {
    const missing = errorCodes.filter((code) => !page.includes(`id="${lower(code)}"`))
    expect(missing).toEqual([])
    for (const { value } of Object.values(document.components.examples)) {
      expect(page).toContain(`id="${problem.parse(value).type.replace('/docs#', '')}"`)
    }
  })

  test('has every route, and no link into itself that leads nowhere', () => {
    const ids = [...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id)
    const targets = [...page.matchAll(/href="#([^"]*)"/g)].map(([, target]) => target)
    expect(new Set(ids).size).toBe(ids.length)
    expect(targets.filter((target) => !ids.includes(target))).toEqual([])
    expect(routes.filter(({ name }) => !ids.includes(`call-${name}`))).toEqual([])
  })

  test('needs no script and nothing from elsewhere', () => {
    expect(page).not.toMatch(
      /<(script|link|img|iframe|object|form)\b|\bsrc=|style="|\bon\w+="|url\(|@import/i,
    )
    expect(page.match(/<style>/g)).toHaveLength(1)
    expect(page).not.toMatch(/href="(?!#|\/openapi\.json")/)
  })

  test('shows what routes say as text, whatever it is', () => {
    const evil = '"><script>alert(`1`)</script>&\''
    const route = defineRoute('POST /<b>', evil, 'read', {
      summary: evil,
      description: evil,
      query: z.object({ [evil]: z.string().describe(evil) }),
      body: { kind: 'json', schema: z.object({ [evil]: z.enum([evil]) }), example: evil },
      responses: {
        200: { description: evil, schema: z.unknown(), example: evil, headers: { [evil]: evil } },
      },
      handle: () => ({ status: 200 }),
    })
    const shown = docsPage(openApiDocument([route], { version: evil }))
    expect(shown).not.toMatch(/<script|<b>/)
    expect(shown).toContain('&#60;script&#62;')
  })
})

test('both are served to everybody, and nothing on the page may run or be framed', async () => {
  const never = () => Promise.reject(new Error('No key is needed here'))
  const server = createServer({ routes, keys: { check: never }, log: createLogger(false) })
  const json = await server.app.inject('/openapi.json')
  const docs = await server.app.inject('/docs')
  await server.close()
  expect(json.json()).toEqual(JSON.parse(JSON.stringify(document)))
  expect(json.headers).toMatchObject({ 'content-type': 'application/json; charset=utf-8' })
  expect(docs.body).toBe(page)
  expect(docs.headers).toMatchObject({
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy':
      "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'",
    'x-content-type-options': 'nosniff',
  })
})

test('docs/reference/api.md is what the routes say', () => {
  const written = readFileSync(new URL('../../docs/reference/api.md', import.meta.url), 'utf8')
  const advice = 'docs/reference/api.md is out of date: run `npm run build && node scripts/api-reference.js`.'
  expect(written === docsMarkdown(document), advice).toBe(true)
})

test('the table of scopes names every route under its scope', () => {
  const written = readFileSync(new URL('../../docs/reference/keys.md', import.meta.url), 'utf8')
  const rows = [...written.matchAll(/^\| `?(publish|consume|read|manage|none)`? +\| (.*?) +\|$/gm)]
  const folders = (row: string) => [...row.matchAll(/`(\/\w+)`/g)].map(([, folder]) => folder)
  for (const [, scope = '', row = ''] of rows) {
    const named = [...row.matchAll(/`([A-Z]+ [^`]+)`/g)].map(([, call]) => call)
    const expected = routes
      .filter((route) => (route.scope ?? 'none') === scope)
      .filter(({ path }) => !folders(row).includes(path.replace(/^(\/\w+).*$/, '$1')))
      .map(({ method, path }) => `${method} ${path}`)
    expect(named.sort(), scope).toEqual(expected.sort())
  }
  expect(rows).toHaveLength(5)
})

function undescribed(schema: JsonSchema, where: string): string[] {
  const own = Object.entries((schema.properties ?? {}) as Record<string, JsonSchema>).flatMap(
    ([name, field]) => [
      ...((field.description ?? '').length < 10 ? [`${where}.${name}`] : []),
      ...undescribed(field, `${where}.${name}`),
    ],
  )
  const inner = [schema.items, ...(schema.anyOf ?? [])].filter((one) => typeof one === 'object')
  return [...own, ...inner.flatMap((one) => undescribed(one as JsonSchema, where))]
}

function operations(): { method: string; path: string; operation: Operation }[] {
  return Object.entries(document.paths).flatMap(([path, byMethod]) =>
    Object.entries(byMethod).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path,
      operation,
    })),
  )
}

function operationOf(name: string): Operation {
  const found = operations().find(({ operation }) => operation.operationId === name)
  if (found === undefined) throw new Error(`No operation ${name}`)
  return found.operation
}

function codesOf({ responses }: Operation): string[] {
  return Object.values(responses).flatMap(({ content = {} }) =>
    Object.keys(content['application/problem+json']?.examples ?? {}),
  )
}

function lower(code: string): string {
  return code.toLowerCase()
}

function bodySchema({ body }: Route, type: string): z.ZodType | undefined {
  return body?.kind === 'bytes' ? body.contents[type]?.schema : body?.schema
}

function ownContent(content: Readonly<Record<string, Content>> = {}): Content | undefined {
  return Object.entries(content).find(([type]) => type !== 'application/problem+json')?.[1]
}

function misfit(route: Route, schema: z.ZodType | undefined, content: Content | undefined): string[] {
  if (schema === undefined || content?.example === undefined) return []
  const { success, error } = schema.safeParse(content.example)
  return success ? [] : [`${route.name}: ${JSON.stringify(content.example)}: ${error.message}`]
}

function valuesOf(node: unknown, key: string): unknown[] {
  if (typeof node !== 'object' || node === null) return []
  return Object.entries(node).flatMap(([name, value]) =>
    name === key && typeof value === 'string' ? [value] : valuesOf(value, key),
  )
}

function lookUp(ref: string): unknown {
  const [start, ...parts] = ref.split('/')
  if (start !== '#') return undefined
  return parts.reduce<unknown>(
    (node, part) => (node as Record<string, unknown> | undefined)?.[part],
    document,
  )
}
