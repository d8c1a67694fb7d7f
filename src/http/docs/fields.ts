import type { OpenApiDocument, Operation, Parameter } from './document.ts'
import { type JsonSchema, nameOf } from './json-schemas.ts'

/** The parts of the OpenAPI document as the page (docs-page.ts) and the reference (markdown.ts) show them. */

export interface Call {
  readonly method: string
  readonly path: string
  readonly operation: Operation
}

/** By the first part of their paths; what stands alone there is kept together at the end. */
export function groupsOf(document: OpenApiDocument): { title: string; calls: Call[] }[] {
  const calls = Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path,
      operation,
    })),
  )
  const groups = document.tags.map(({ name }) => ({
    title: name.charAt(0).toUpperCase() + name.slice(1),
    calls: calls.filter(({ operation }) => operation.tags.includes(name)),
  }))
  const alone = groups.filter((group) => group.calls.length === 1)
  return [
    ...groups.filter((group) => group.calls.length > 1),
    ...(alone.length === 0 ? [] : [{ title: 'Server', calls: alone.flatMap((group) => group.calls) }]),
  ]
}

/** The codes that an operation can answer with, by status. */
export function errorsOf({ responses }: Operation): { status: string; codes: string[] }[] {
  return Object.entries(responses).flatMap(([status, { content = {} }]) => {
    const codes = Object.values(content).flatMap(({ examples = {} }) => Object.keys(examples))
    return codes.length === 0 ? [] : [{ status, codes }]
  })
}

/** The answers of an operation that are not errors. */
export function answersOf({ responses }: Operation) {
  return Object.entries(responses).flatMap(([status, { description, headers = {}, content = {} }]) => {
    const own = Object.entries(content).filter(([, { examples }]) => examples === undefined)
    const isError = Object.keys(content).length > own.length
    return isError && own.length === 0 ? [] : [{ status, description, headers, contents: own }]
  })
}

export interface Field {
  readonly name: string
  readonly isRequired: boolean
  readonly type: TypePart[]
  readonly description: string
}

export function parameterField({ name, required, description = '', schema }: Parameter): Field {
  return { name, isRequired: required, type: typeOf(schema), description }
}

/** Text, or the name of a schema to link to. */
export type TypePart = string | { readonly ref: string }

/** The fields of an object; fields of inner objects are named `outer.inner` and `list[].inner`. */
export function fieldsOf(schema: JsonSchema, prefix = ''): Field[] {
  const required = schema.required ?? []
  return Object.entries((schema.properties ?? {}) as Record<string, JsonSchema>).flatMap(([name, field]) => {
    const inner = innerOf(field)
    return [
      {
        name: prefix + name,
        isRequired: required.includes(name),
        type: typeOf(field),
        description: field.description ?? '',
      },
      ...(inner === undefined ? [] : fieldsOf(inner.schema, `${prefix}${name}${inner.joint}`)),
    ]
  })
}

function innerOf(schema: JsonSchema): { schema: JsonSchema; joint: string } | undefined {
  if (schema.properties !== undefined) return { schema, joint: '.' }
  const items = schema.items as JsonSchema | undefined
  if (items?.properties !== undefined) return { schema: items, joint: '[].' }
  const choice = (schema.anyOf as JsonSchema[] | undefined)?.find((one) => innerOf(one) !== undefined)
  return choice === undefined ? undefined : innerOf(choice)
}

export function typeOf(schema: JsonSchema): TypePart[] {
  if (schema.$ref !== undefined) return [{ ref: nameOf(schema.$ref) }]
  if (schema.const !== undefined) return [JSON.stringify(schema.const)]
  if (schema.enum !== undefined) return [schema.enum.map((one) => JSON.stringify(one)).join(' or ')]
  if (schema.anyOf !== undefined) {
    return (schema.anyOf as JsonSchema[]).flatMap((one, place) => [
      ...(place > 0 ? [' or '] : []),
      ...typeOf(one),
    ])
  }
  if (schema.type === 'array') {
    const limits = limitWords(schema.minItems, schema.maxItems)
    return [
      'array of ',
      ...typeOf((schema.items ?? {}) as JsonSchema),
      limits === '' ? '' : `,${limits} of them`,
    ]
  }
  if (schema.type === undefined) return ['any JSON']
  return [scalarWords(schema)]
}

function scalarWords(schema: JsonSchema): string {
  const { type, format, minLength, maxLength, minimum, exclusiveMinimum, maximum, pattern } = schema
  if (Array.isArray(type)) return type.join(' or ')
  if (type === 'integer' || type === 'number') {
    const above = exclusiveMinimum === undefined ? '' : ` above ${exclusiveMinimum}`
    return `${type}${above}${limitWords(minimum, maximum)}`
  }
  if (type !== 'string') return String(type)
  if (format === 'date-time') return 'time'
  if (format !== undefined) return format
  if (pattern !== undefined) return `string like ${pattern}`
  const limits = limitWords(minLength, maxLength)
  return limits === '' ? 'string' : `string,${limits} characters`
}

function limitWords(min: number | undefined, max: number | undefined): string {
  if (min !== undefined && max !== undefined) return ` ${min} to ${max}`
  if (max !== undefined) return ` up to ${max}`
  return min === undefined ? '' : ` from ${min}`
}
