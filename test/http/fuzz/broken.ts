import fc from 'fast-check'
import type { JsonSchema } from '../../../src/http/docs/json-schemas.ts'
import { hugeText, nastyText } from './texts.ts'
import { Exact, fromMembers, isRecord, membersOf, type Tree, Twice, write } from './tree.ts'
import type { Values } from './values.ts'

/** What fits the schema but for one thing. */
export function nearlyFitting(values: Values, schema: JsonSchema, name = ''): fc.Arbitrary<Tree> {
  const chance = fc.tuple(fc.nat(), fc.nat(), fc.oneof({ arbitrary: nastyText, weight: 9 }, hugeText))
  return fc
    .tuple(values.fitting(schema, name), chance)
    .map(([tree, [place, way, text]]) => breakAt(tree, schema, values, { place, way, text }))
}

interface Chance {
  readonly place: number
  readonly way: number
  readonly text: string
}

function breakAt(tree: Tree, schema: JsonSchema, values: Values, chance: Chance): Tree {
  const spots = spotsOf(tree, schema, values)
  const spot = spots[chance.place % spots.length] as Spot
  const ways = waysToBreak(spot, values, chance)
  return replaceAt(tree, spot.path, ways[chance.way % ways.length] as Tree)
}

interface Spot {
  readonly path: readonly (string | number)[]
  readonly tree: Tree
  readonly schema: JsonSchema
}

/** The value itself and everything in it. */
function spotsOf(tree: Tree, given: JsonSchema, values: Values, path: Spot['path'] = []): Spot[] {
  const schema = choiceFor(tree, values.resolve(given), values)
  const inner = Array.isArray(tree)
    ? tree.flatMap((one: Tree, place) =>
        spotsOf(one, (schema.items ?? {}) as JsonSchema, values, [...path, place]),
      )
    : membersOf(tree).flatMap(([name, value]) => {
        const field = (schema.properties as Record<string, JsonSchema> | undefined)?.[name] ?? {}
        return spotsOf(value, field, values, [...path, name])
      })
  return [{ path, tree, schema }, ...inner]
}

/** Of several schemas the one whose type the value has. */
function choiceFor(tree: Tree, schema: JsonSchema, values: Values): JsonSchema {
  const choices = (schema.anyOf as JsonSchema[] | undefined)?.map((one) => values.resolve(one))
  if (choices === undefined) return schema
  const flat = choices.flatMap((one) => (one.anyOf as JsonSchema[] | undefined) ?? [one])
  return flat.find(({ type }) => type === typeOf(tree)) ?? flat[0] ?? {}
}

function typeOf(tree: Tree): string {
  if (tree === null) return 'null'
  if (Array.isArray(tree)) return 'array'
  if (isRecord(tree)) return 'object'
  return typeof tree === 'number' ? 'integer' : typeof tree
}

function waysToBreak({ tree, schema }: Spot, values: Values, { place, text }: Chance): Tree[] {
  const anyway: Tree[] = [
    null,
    true,
    7,
    -1,
    1.5,
    'text',
    text,
    [],
    {},
    [tree],
    new Exact('NaN'),
    new Exact('1e400'),
  ]
  switch (schema.type) {
    case 'string':
      return [...anyway, ...brokenTexts(schema, text)]
    case 'integer':
    case 'number':
      return [...anyway, ...brokenNumbers(schema)]
    case 'array':
      return [...anyway, ...brokenArrays(tree, schema, values)]
    default:
      return isRecord(tree) ? [...anyway, ...brokenObjects(tree, schema, { place, text })] : anyway
  }
}

function brokenTexts({ minLength = 0, maxLength = 30 }: JsonSchema, text: string): Tree[] {
  const tooLong = ['a', '😀', 'é'].map((unit) => unit.repeat(maxLength + 1))
  const justFits = ['a', '😀', ','].map((unit) => unit.repeat(maxLength))
  return [...tooLong, ...justFits, 'a'.repeat(Math.max(0, minLength - 1)), 'a\0', 'a\ud800', 'a\n', text]
}

function brokenNumbers({ minimum = 0, maximum = Number.MAX_SAFE_INTEGER }: JsonSchema): Tree[] {
  const beside = [
    minimum - 1,
    minimum,
    minimum + 1,
    maximum - 1,
    maximum,
    maximum + 1,
    minimum + 0.5,
    -minimum,
  ]
  return [...beside, String(minimum), 2 ** 53, -(2 ** 63), new Exact('1'.repeat(30)), new Exact('-0')]
}

function brokenArrays(
  tree: Tree,
  { minItems = 0, maxItems = 10, items }: JsonSchema,
  values: Values,
): Tree[] {
  const [first] = Array.isArray(tree) ? (tree as readonly Tree[]) : []
  const item = first ?? (values.resolve((items ?? {}) as JsonSchema).type === 'integer' ? 1 : 'a')
  const many = (count: number): Tree => Array.from({ length: count }, () => item)
  return [many(Math.max(0, minItems - 1)), many(maxItems), many(maxItems + 1), [item, null], [item, [item]]]
}

const strangers = [
  '__proto__',
  'constructor',
  'id',
  'status',
  'extra',
  '',
  'payload ',
  'Type',
  'x'.repeat(300),
]

function brokenObjects(
  tree: Tree,
  { required = [] }: JsonSchema,
  { place, text }: Omit<Chance, 'way'>,
): Tree[] {
  const members = membersOf(tree)
  const [twice] = members
  const without = (name: string) => fromMembers(members.filter(([other]) => other !== name))
  const withOne = (name: string, value: Tree) => fromMembers([...members, [name, value]])
  const stranger = strangers[place % strangers.length] as string
  return [
    ...required.map(without),
    ...[withOne(stranger, 1), withOne(stranger, { polluted: true }), withOne(text, text)],
    ...(twice === undefined ? [] : [withDuplicate(tree, twice)]),
  ]
}

/** The name that comes first comes again. */
function withDuplicate(tree: Tree, [name, value]: readonly [string, Tree]): Tree {
  try {
    return new Twice(`{${JSON.stringify(name)}:${write(value)},${write(tree).slice(1)}`)
  } catch {
    return fromMembers([[name, value]])
  }
}

function replaceAt(tree: Tree, [step, ...rest]: Spot['path'], by: Tree): Tree {
  if (step === undefined) return by
  if (Array.isArray(tree)) {
    return tree.map((one: Tree, place) => (place === step ? replaceAt(one, rest, by) : one))
  }
  return fromMembers(
    membersOf(tree).map(([name, value]) => [name, name === step ? replaceAt(value, rest, by) : value]),
  )
}
