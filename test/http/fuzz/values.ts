import fc from 'fast-check'
import type { OpenApiDocument } from '../../../src/http/docs/document.ts'
import type { JsonSchema } from '../../../src/http/docs/json-schemas.ts'
import { hinted } from './hints.ts'
import { plainText } from './texts.ts'
import { fromMembers, type Tree } from './tree.ts'

/** Makes values that fit the schemas of a document. */
export class Values {
  readonly #document: OpenApiDocument

  constructor(document: OpenApiDocument) {
    this.#document = document
  }

  resolve(schema: JsonSchema): JsonSchema {
    if (schema.$ref === undefined) return schema
    const found = this.#document.components.schemas[schema.$ref.replace('#/components/schemas/', '')]
    if (found === undefined) throw new Error(`The document has no ${schema.$ref}`)
    return found
  }

  /** `name` is that of the field, or empty. */
  fitting(schema: JsonSchema, name = ''): fc.Arbitrary<Tree> {
    const fits = this.#fitting(this.resolve(schema), name)
    const hint = hinted(name, this.resolve(schema))
    if (hint === undefined) return fits
    return fc.oneof({ arbitrary: hint, weight: 4 }, { arbitrary: fits, weight: onlyHints.has(name) ? 0 : 1 })
  }

  #fitting(schema: JsonSchema, name: string): fc.Arbitrary<Tree> {
    if (schema.const !== undefined) return fc.constant(schema.const as Tree)
    if (schema.enum !== undefined) return fc.constantFrom(...(schema.enum as Tree[]))
    if (schema.anyOf !== undefined)
      return fc.oneof(...schema.anyOf.map((one) => this.fitting(one as JsonSchema, name)))
    if (Array.isArray(schema.type)) {
      return fc.oneof(...schema.type.map((type) => this.#fitting({ ...schema, type } as JsonSchema, name)))
    }
    switch (schema.type) {
      case 'object':
        return this.#objectOf(schema)
      case 'array':
        return this.#arrayOf(schema, name)
      case 'string':
        return textOf(schema)
      case 'integer':
      case 'number':
        return numberOf(schema)
      case 'boolean':
        return fc.boolean()
      case 'null':
        return fc.constant(null)
      default:
        return fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<Tree>
    }
  }

  #objectOf(schema: JsonSchema): fc.Arbitrary<Tree> {
    const { properties = {}, required = [], additionalProperties, propertyNames, minProperties = 0 } = schema
    const fields = Object.entries(properties as Record<string, JsonSchema>).map(([name, schema]) => {
      const value = this.fitting(schema, name).map((tree): [string, Tree][] => [[name, tree]])
      const without = required.includes(name) ? 0 : (absences[name] ?? 8)
      return fc.oneof({ arbitrary: fc.constant([]), weight: without }, { arbitrary: value, weight: 2 })
    })
    const more =
      typeof additionalProperties === 'object'
        ? fc.array(
            fc.tuple(
              propertyNames === undefined
                ? fc.stringMatching(/^[a-z][a-z0-9]{0,9}$/)
                : textOf(propertyNames as JsonSchema),
              this.fitting(additionalProperties as JsonSchema),
            ),
            {
              minLength: minProperties as number,
              maxLength: 3,
            },
          )
        : fc.constant([])
    return fc.tuple(more, ...fields).map((members) => fromMembers(members.flat()))
  }

  #arrayOf({ items = {}, minItems = 0, maxItems = 10 }: JsonSchema, name: string): fc.Arbitrary<Tree> {
    const item = this.fitting(items as JsonSchema, name)
    return fc.array(item, { minLength: minItems, maxLength: Math.min(maxItems, Math.max(minItems, 4)) })
  }
}

/** How often a field is left out for every two times that it is there. Some fields have several names, which contradict each other. */
const absences: Readonly<Record<string, number>> = {
  ...{ type: 1, title: 1, tags: 1, via: 0, worker_id: 2, lease_token: 1 },
  ...{ event_type: 40, name: 40, pattern: 40, group_id: 40, eventId: 40, metadata: 40, idempotency_key: 16 },
}

/** What would otherwise be valid and take a minute, or be valid in form and stand for nothing. */
const onlyHints = new Set(['wait', 'traceparent', 'payload', 'lease_token', 'cursor'])

function textOf({ format, pattern, minLength = 0, maxLength = 30 }: JsonSchema): fc.Arbitrary<string> {
  if (format === 'date-time') return timeText
  if (format === 'uuid') return fc.uuid({ version: 7 })
  if (pattern !== undefined) return fc.oneof(...fitting(pattern)).filter(fits(pattern))
  return plainText({ min: minLength, max: maxLength })
}

/** fast-check cannot make everything that a pattern can say, so it makes what is likely and keeps what fits. */
const likely = [
  /^[A-Za-z0-9_:-]{1,100}$/,
  /^[a-z]{1,5}(\.[a-z]{1,5}){0,3}$/,
  /^[a-z]{1,9}\.\*$/,
  /^[a-z]{0,5}(,[a-z]{1,5}){0,4}$/,
  /^\/(payload|type|source)(\/[a-z~01]{1,5}){0,2}$/,
  /^whsec_([A-Za-z0-9+/]{4}){6,10}$/,
  /^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$/,
  /^[1-5](xx|[0-9][0-9])$/,
].map((one) => fc.stringMatching(one))

/** Trying them out takes long, and few patterns stand in many places. */
const found = new Map<string, fc.Arbitrary<string>[]>()

/** Those that make something which fits: a filter that lets nothing through would never end. */
function fitting(pattern: string): fc.Arbitrary<string>[] {
  const known = found.get(pattern)
  if (known !== undefined) return known
  const some = likely.filter((one) => fc.sample(one, 50).some(fits(pattern)))
  if (some.length === 0) throw new Error(`Nothing that is looked for can fit ${pattern}`)
  found.set(pattern, some)
  return some
}

function fits(pattern: string): (text: string) => boolean {
  const form = new RegExp(pattern, 'u')
  return (text) => form.test(text)
}

const timeText = fc.oneof(
  {
    arbitrary: fc
      .tuple(
        fc.date({
          min: new Date('0002-01-01T00:00:00Z'),
          max: new Date('9998-12-31T00:00:00Z'),
          noInvalidDate: true,
        }),
        fc.constantFrom('Z', '+00:00', '-00:00', '+23:59', '-23:59', '+05:30'),
        fc.constantFrom('', '.0', '.5', '.123', '.123456789', '.000000000001'),
      )
      .map(([date, zone, fraction]) => `${date.toISOString().slice(0, 19)}${fraction}${zone}`),
    weight: 4,
  },
  fc.constantFrom(
    ...['0001-01-01T00:00:00Z', '9999-12-31T23:59:59.999Z', '2024-02-29T12:00:00Z', '1970-01-01T00:00:00Z'],
    ...['2038-01-19T03:14:08Z', '1582-10-10T00:00:00Z', '2026-12-31T23:59:59+00:00'],
  ),
)

function numberOf(schema: JsonSchema): fc.Arbitrary<number> {
  const { type, minimum = -1e9, maximum = Number.MAX_SAFE_INTEGER, exclusiveMinimum } = schema
  if (type === 'integer') {
    return fc.oneof(fc.constantFrom(minimum, maximum), fc.integer({ min: minimum, max: maximum }))
  }
  const min = typeof exclusiveMinimum === 'number' ? exclusiveMinimum : minimum
  const edges = [maximum, exclusiveMinimum === undefined ? min : Number.MIN_VALUE]
  const between = fc.double({ min, max: maximum, minExcluded: exclusiveMinimum !== undefined, noNaN: true })
  return fc.oneof(fc.constantFrom(...edges), between)
}
