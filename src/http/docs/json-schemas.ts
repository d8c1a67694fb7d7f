import { z } from 'zod'
import { components } from '../schemas.ts'
import { meaningOf } from './field-meanings.ts'

export type JsonSchema = z.core.JSONSchema.JSONSchema
export type Direction = 'input' | 'output'

const place = '#/components/schemas/'

/** The named schemas of a document, collected as they are referred to. */
export class NamedSchemas {
  readonly #found = new Map<string, JsonSchema>()

  /** A schema as the document has it: a reference if the schema has a name, otherwise in full. */
  write(schema: z.core.$ZodType, io: Direction): JsonSchema {
    const id = components.get(schema)?.id
    return id === undefined ? this.#convert(schema, io) : this.#refer(id, schema, io)
  }

  /** The schema that a reference stands for. */
  resolve(schema: JsonSchema): JsonSchema {
    return schema.$ref === undefined ? schema : (this.#found.get(nameOf(schema.$ref)) ?? {})
  }

  all(): Record<string, JsonSchema> {
    return Object.fromEntries([...this.#found].sort(([a], [b]) => (a < b ? -1 : 1)))
  }

  #refer(id: string, schema: z.core.$ZodType, io: Direction): JsonSchema {
    if (!this.#found.has(id)) {
      // Added before it is converted, so that it may refer to itself.
      this.#found.set(id, {})
      const written = this.#convert(schema, io)
      describeFields(written, [id])
      this.#found.set(id, written)
    }
    return { $ref: `${place}${id}` }
  }

  #convert(root: z.core.$ZodType, io: Direction): JsonSchema {
    const { $schema, ...written } = z.toJSONSchema(root, {
      io,
      unrepresentable: 'any',
      override: ({ zodSchema, jsonSchema }) => {
        const id = zodSchema === root ? undefined : components.get(zodSchema)?.id
        if (id === undefined) trim(jsonSchema, zodSchema, io)
        else replace(jsonSchema, this.#refer(id, zodSchema, io))
      },
    })
    return written
  }
}

export function nameOf(ref: string): string {
  return ref.slice(place.length)
}

/** Removes what readers know anyway, and what would keep answers from getting further fields later. */
function trim(json: JsonSchema, schema: z.core.$ZodTypes, io: Direction): void {
  const { description } = json
  if (json.$ref !== undefined) replace(json, { $ref: json.$ref, ...(description && { description }) })
  if (json.format !== undefined) delete json.pattern
  if (json.minimum === Number.MIN_SAFE_INTEGER) delete json.minimum
  if (json.maximum === Number.MAX_SAFE_INTEGER) delete json.maximum
  if (schema._zod.def.type === 'object' && schema._zod.def.catchall === undefined && io === 'output') {
    delete json.additionalProperties
  }
}

/** Adds the meaning of each field that has no description of its own. */
function describeFields(schema: JsonSchema, parents: readonly string[]): void {
  for (const [name, field] of Object.entries((schema.properties ?? {}) as Record<string, JsonSchema>)) {
    const meaning = field.description ?? meaningOf(name, parents)
    if (meaning !== undefined) field.description = meaning
    describeFields(field, [...parents.slice(0, 1), name])
  }
  if (schema.items !== undefined) describeFields(schema.items as JsonSchema, parents)
  for (const choice of (schema.anyOf ?? []) as JsonSchema[]) describeFields(choice, parents)
}

function replace(json: JsonSchema, by: JsonSchema): void {
  for (const key of Object.keys(json)) delete json[key]
  Object.assign(json, by)
}
