import type { z } from 'zod'
import type { Route } from '../route.ts'
import type { Parameter } from './document.ts'
import { wordFor } from './examples.ts'
import { meaningOf } from './field-meanings.ts'
import { type Direction, type JsonSchema, NamedSchemas } from './json-schemas.ts'

export function parametersOf({ path, params, query, queryPrefix }: Route): Parameter[] {
  return [
    ...(params === undefined ? [] : fieldsOf(params).map((field) => parameterOf('path', path, field))),
    ...(query === undefined ? [] : fieldsOf(query).map((field) => parameterOf('query', path, field))),
    ...(queryPrefix === undefined ? [] : [prefixed(queryPrefix)]),
  ]
}

interface Field {
  readonly name: string
  readonly isRequired: boolean
  readonly schema: JsonSchema
}

/** Parameters arrive as text and are converted; the document shows what they are converted to. */
function fieldsOf(object: z.ZodObject): Field[] {
  const sent = propertiesOf(object, 'input')
  const read = propertiesOf(object, 'output')
  return Object.keys(object.shape).map((name) => {
    const before = sent.properties[name] ?? {}
    const after = read.properties[name] ?? {}
    return { name, isRequired: sent.required.includes(name), schema: saysNothing(after) ? before : after }
  })
}

function propertiesOf(object: z.ZodObject, io: Direction) {
  const { properties = {}, required = [] } = new NamedSchemas().write(object, io)
  return { properties: properties as Record<string, JsonSchema>, required }
}

/** A flag is converted by a function, for which zod has no schema. */
function saysNothing({ description, ...rest }: JsonSchema): boolean {
  return Object.keys(rest).length === 0
}

function parameterOf(place: Parameter['in'], path: string, { name, isRequired, schema }: Field): Parameter {
  const { description = meaningOf(name, [firstPart(path)]), ...bare } = schema
  const example = wordFor(name, bare, [firstPart(path)])
  return {
    name,
    in: place,
    required: place === 'path' || isRequired,
    ...(description !== undefined && { description }),
    schema: bare,
    ...(example !== undefined && { example }),
  }
}

/** An `{id}` below /subscribers differs from one below /events. */
function firstPart(path: string): string {
  return path.split('/')[1] ?? ''
}

/** OpenAPI cannot describe parameters with arbitrary names, so this one stands for all of them. */
function prefixed(prefix: string): Parameter {
  return {
    name: `${prefix}<path>`,
    in: 'query',
    required: false,
    description: `Only events whose payload has this value at this path, as in \`${prefix}user.id=42\`. May be given several times, with different paths.`,
    schema: { type: 'string' },
  }
}
