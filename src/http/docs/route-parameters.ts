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

/** Parameters arrive as text and are read as something else: that is what a caller has to know. */
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

/** A flag is read by a function, of which nothing can be said. */
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

/** `{id}` is another thing below /subscribers than below /events. */
function firstPart(path: string): string {
  return path.split('/')[1] ?? ''
}

/** OpenAPI has no word for parameters whose names are open. */
function prefixed(prefix: string): Parameter {
  return {
    name: `${prefix}<path>`,
    in: 'query',
    required: false,
    description: `Any number of parameters whose names begin with \`${prefix}\`: what follows is a path with dots, as in \`${prefix}user.id=42\`.`,
    schema: { type: 'string' },
  }
}
