import type { z } from 'zod'
import { camelCase } from '../domain/wire-name.ts'

type CamelCase<Name> = Name extends `${infer First}_${infer Rest}`
  ? `${First}${Capitalize<CamelCase<Rest>>}`
  : Name

/** The fields that are always there, and that the source does not have under the same name in camelCase. */
type OtherFields<Shape extends z.ZodRawShape, Source> = {
  readonly [Name in keyof Shape as Shape[Name] extends z.ZodOptional
    ? never
    : CamelCase<Name> extends keyof Source
      ? never
      : Name]: unknown
}

/**
 * Writes objects as their schema documents them, with its fields in its order. `others` gives the fields that the source does not
 * have, or has with another meaning. A field that is undefined is left out.
 */
export function writerOf<Shape extends z.ZodRawShape, Source extends object>(
  { shape }: z.ZodObject<Shape>,
  others: (source: Source) => OtherFields<Shape, Source> & { readonly [Name in keyof Shape]?: unknown },
): (source: Source) => object {
  const names = Object.keys(shape).map((name) => [name, camelCase(name)] as const)
  return (source) => {
    const all = source as Record<string, unknown>
    const own: Record<string, unknown> = others(source)
    const fields = names.map(([name, member]) => [name, Object.hasOwn(own, name) ? own[name] : all[member]])
    return Object.fromEntries(fields)
  }
}
