import fc from 'fast-check'
import { nearlyFitting } from './broken.ts'
import { slot } from './hints.ts'
import { binaryCloudEvent, lost } from './lost.ts'
import { oddity, oddQueries, withOddQuery } from './odd.ts'
import { type Aim, emptyPlan, isOpen, type Plan } from './plan.ts'
import { hugeText, nastyText } from './texts.ts'
import { fromMembers, isRecord, membersOf, Slot, type SlotKind, type Tree } from './tree.ts'
import type { Values } from './values.ts'

/** Requests of every kind: those that the document allows, those that it nearly allows, and those that nobody would. */
export function anyPlan(values: Values, aims: readonly Aim[]): fc.Arbitrary<Plan> {
  const each = aims.map((aim) => {
    const good = fittingPlan(values, aim)
    return { good, nearly: nearlyFittingPlan(values, aim, good), weight: weights[aim.name] ?? 2 }
  })
  return fc.oneof(
    { arbitrary: fc.oneof(...each.map(({ good, weight }) => ({ arbitrary: good, weight }))), weight: 11 },
    { arbitrary: fc.oneof(...each.map(({ nearly, weight }) => ({ arbitrary: nearly, weight }))), weight: 8 },
    { arbitrary: lost, weight: 1 },
    { arbitrary: binaryCloudEvent, weight: 1 },
  )
}

/** What later requests live on comes more often, and what says little less. */
const weights: Readonly<Record<string, number>> = {
  ...{ publishEvent: 12, publishEvents: 5, subscribe: 12, subscribePost: 4, settleEvents: 5, getEvent: 4 },
  ...{ completeEvent: 8, failEvent: 4, heartbeat: 4, startEvent: 3, releaseEvent: 3, listEvents: 4 },
  ...{
    cancelEvents: 1,
    cancelEvent: 1,
    resetEvent: 1,
    purgeEvent: 1,
    getStorage: 1,
    createSubscriber: 3,
    changeSubscriber: 4,
  },
  ...{ deleteSubscriber: 1, pauseSubscriber: 1, resumeSubscriber: 2, metrics: 1, subscribeHead: 1 },
  ...{ recoverSubscriber: 2, replaySubscriber: 3, listReplays: 1, getReplay: 2, abortReplay: 1 },
  ...{ discardDeadLetter: 1, retryDeadLetters: 1, discardLane: 1, skipLane: 1 },
  ...{ drainQueue: 1, pauseQueue: 1, configureQueue: 1, resumeQueue: 6 },
  ...{ live: 1, ready: 1, healthy: 1, getDocs: 1, getOpenApi: 1, listWorkers: 1 },
}

function fittingPlan(values: Values, aim: Aim): fc.Arbitrary<Plan> {
  const body =
    aim.bodies.length === 0
      ? fc.constant([null, undefined] as const)
      : fc.oneof(...aim.bodies.map(([type, schema]) => fc.tuple(fc.constant(type), values.fitting(schema))))
  const shape = fc.tuple(fittingParams(values, aim), fittingQuery(values, aim), body)
  return fc
    .tuple(shape, fc.nat(1_000), fc.integer({ min: 0, max: 3 }), goodHeaders)
    .map(([[params, query, [contentType, tree]], pick, stray, headers]): Plan => {
      // Three of four speak of one lease; in the others event, token and worker are of different ones.
      const together = (one: Tree): Tree => (stray === 0 ? one : ofOneLease(one, pick))
      return {
        ...emptyPlan,
        ...{ name: aim.name, method: aim.method, path: aim.path, query, headers, contentType, isPlain: true },
        params: Object.fromEntries(Object.entries(params).map(([name, value]) => [name, together(value)])),
        body: tree === undefined ? undefined : together(claiming(tree, stray)),
      }
    })
}

function fittingParams(values: Values, { path, parameters }: Aim): fc.Arbitrary<Record<string, Tree>> {
  const inPath = parameters.filter((one) => one.in === 'path')
  const fields = inPath.map(({ name, schema }) => {
    const known = name === 'key' ? values.fitting(schema, name) : slot(kindOf(path))
    return fc.tuple(
      fc.constant(name),
      fc.oneof({ arbitrary: known, weight: 9 }, { arbitrary: values.fitting(schema), weight: 1 }),
    )
  })
  return fc.tuple(...fields).map((entries) => Object.fromEntries(entries))
}

function kindOf(path: string): SlotKind {
  if (path.startsWith('/queues')) return 'name'
  if (path.startsWith('/subscribers')) return 'subscriber'
  if (path.startsWith('/deliveries')) return 'delivery'
  if (path.startsWith('/dlq')) return 'dead letter'
  if (path.startsWith('/replays')) return 'replay'
  return /(start|beat|ease|ete|ail)$/.test(path) ? 'lease event' : 'event'
}

function fittingQuery(values: Values, { parameters }: Aim): fc.Arbitrary<[string, Tree][]> {
  const fields = parameters
    .filter((one) => one.in === 'query' && !isOpen(one))
    .map(({ name, schema, required }) => {
      const given = values.fitting(schema, name).map((value): [string, Tree][] => [[name, value]])
      const share =
        required || (name === 'tags' && parameters.some((one) => one.name === 'worker_id')) ? 0 : 4
      return fc.oneof({ arbitrary: fc.constant([]), weight: share }, { arbitrary: given, weight: 1 })
    })
  return fc.tuple(...fields).map((some) => some.flat())
}

/** A worker names itself, or a token, or both. */
function claiming(tree: Tree, stray: number): Tree {
  if (!isRecord(tree) || !('lease_token' in tree) || stray !== 3) return tree
  const rest = membersOf(tree).filter(([name]) => name !== 'lease_token' && name !== 'worker_id')
  return fromMembers([...rest, ['worker_id', new Slot('lease worker', 0)]])
}

function ofOneLease(tree: Tree, pick: number): Tree {
  if (tree instanceof Slot) return tree.kind.startsWith('lease') ? new Slot(tree.kind, pick) : tree
  if (Array.isArray(tree)) return tree.map((one: Tree, place) => ofOneLease(one, pick + place))
  if (!isRecord(tree)) return tree
  return fromMembers(membersOf(tree).map(([name, value]) => [name, ofOneLease(value, pick)]))
}

const goodHeaders = fc.oneof(
  { arbitrary: fc.constant([]), weight: 12 },
  fc.constantFrom<[string, string][]>(
    [['Idempotency-Key', 'header-1']],
    [['X-Idempotency-Key', 'header-2']],
    [
      ['traceparent', '00-0af7651916cd43dd8448eb211c80319c-b9c7c989f97918e1-01'],
      ['tracestate', 'a=1,b=2'],
    ],
    [['X-Request-Id', 'request-1']],
    [['Accept', 'application/cloudevents+json']],
    [['Transfer-Encoding', 'chunked']],
    [['Expect', '100-continue']],
  ),
)

function withEach(params: Plan['params'], value: Tree): Plan['params'] {
  return Object.fromEntries(Object.keys(params).map((name) => [name, value]))
}

/** One thing is wrong with it, or odd. */
function nearlyFittingPlan(values: Values, aim: Aim, good: fc.Arbitrary<Plan>): fc.Arbitrary<Plan> {
  const inBody = aim.bodies.map(([type, schema]) => ({
    arbitrary: fc
      .tuple(good, nearlyFitting(values, schema))
      .map(([plan, body]): Plan => ({ ...plan, contentType: type, body })),
    weight: 5,
  }))
  const named = aim.parameters.filter((one) => one.in === 'query')
  const inQuery = fc
    .tuple(good, fc.nat(), fc.oneof(nastyText, hugeText), fc.nat(), fc.constantFrom(...oddQueries))
    .map(([plan, place, text, way, odd]) => withOddQuery(plan, named, { place, text, way, odd }))
  const inPath = fc
    .tuple(good, nastyText)
    .map(([plan, text]): Plan => ({ ...plan, params: withEach(plan.params, text.slice(0, 5_000)) }))
  const odd = fc.tuple(good, oddity).map(([plan, change]) => change(plan))
  return fc.oneof(
    ...inBody,
    { arbitrary: inQuery, weight: named.length > 0 ? 4 : 1 },
    { arbitrary: inPath, weight: aim.path.includes('{') ? 1 : 0 },
    { arbitrary: odd, weight: 2 },
  )
}
