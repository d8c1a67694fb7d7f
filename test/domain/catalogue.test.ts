import type { StandardSchemaV1 } from '@standard-schema/spec'
import { expect, expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import {
  type Catalogue,
  defineEvents,
  type EventFor,
  type EventMap,
  type EventPattern,
  type EventToPublish,
  event,
} from '../../src/domain/catalogue.ts'
import type { EventInput } from '../../src/domain/event.ts'

const events = defineEvents({
  'order.created': event(z.object({ orderId: z.string(), total: z.number().default(0) }), {
    orderingKey: (payload) => payload.orderId,
  }),
  'order.item.added': event<{ orderId: string; sku: string }>(),
  'user.deleted': event<{ userId: string }>({ orderingKey: (payload) => payload.userId }),
})

type Events = typeof events

/** The hub's signatures, as the types are meant to be used. */
interface Hub<C extends Catalogue = Catalogue> {
  publish(event: EventToPublish<C>): void
  on<const Pattern extends EventPattern<C>>(
    pattern: Pattern,
    handler: (event: EventFor<C, Pattern>) => void,
  ): void
}

const ignored = { publish: () => undefined, on: () => undefined }
const hub: Hub<Events> = ignored
const untypedHub: Hub = ignored

test('a payload that fits comes back as the schema puts it out', async () => {
  expect(await events.validate('order.created', { orderId: 'a', extra: 1 })).toEqual({
    orderId: 'a',
    total: 0,
  })
})

test('a payload without a schema is passed through', async () => {
  const payload = { sku: 7 }
  expect(await events.validate('order.item.added', payload)).toBe(payload)
})

test('a payload that does not fit is refused with paths and messages', async () => {
  const catalogue = defineEvents({ 'a.b': event(z.object({ items: z.array(z.object({ id: z.string() })) })) })
  await expect(catalogue.validate('a.b', { items: [{ id: 'x' }, { id: 7 }] })).rejects.toMatchObject({
    code: 'SCHEMA_MISMATCH',
    details: { type: 'a.b', issues: [expect.stringMatching(/^items\.1\.id: .*string/)] },
  })
  await expect(catalogue.validate('a.b', 'text')).rejects.toMatchObject({
    details: { issues: [expect.not.stringMatching(/^:/)] },
  })
})

test('a schema may validate asynchronously and may name path segments by objects', async () => {
  const schema: StandardSchemaV1<{ n: number }> = {
    '~standard': {
      version: 1,
      vendor: 'test',
      validate: async (value) =>
        value === 1 ? { value: { n: 1 } } : { issues: [{ message: 'bad', path: [{ key: 'n' }, 0] }] },
    },
  }
  const catalogue = defineEvents({ n: event(schema) })
  expect(await catalogue.validate('n', 1)).toEqual({ n: 1 })
  await expect(catalogue.validate('n', 2)).rejects.toMatchObject({ details: { issues: ['n.0: bad'] } })
})

test('a zod schema with an asynchronous refinement is awaited', async () => {
  const even = z.number().refine(async (n) => n % 2 === 0, 'must be even')
  const catalogue = defineEvents({ n: event(even) })
  expect(await catalogue.validate('n', 2)).toBe(2)
  await expect(catalogue.validate('n', 3)).rejects.toMatchObject({ details: { issues: ['must be even'] } })
})

test.each(['order.deleted', 'toString', '__proto__'])('the type %s is not in the catalogue', async (type) => {
  await expect(events.validate(type, {})).rejects.toMatchObject({
    code: 'BAD_EVENT',
    details: { value: type },
  })
})

test('the ordering key follows from the payload, where the definition says how', () => {
  expect(events.orderingKey('order.created', { orderId: 'a', total: 1 })).toBe('a')
  expect(events.orderingKey('user.deleted', { userId: 'u' })).toBe('u')
  expect(events.orderingKey('order.item.added', { orderId: 'a', sku: 'b' })).toBeNull()
})

test('a catalogue entry must be named by a type', () => {
  expect(() => defineEvents({ 'order.*': event() })).toThrow(
    'Expected events to be named by event types, got order.*.',
  )
})

test('handlers are typed by what the schema puts out', () => {
  expectTypeOf<EventMap<Events>>().toEqualTypeOf<{
    readonly 'order.created': { orderId: string; total: number }
    readonly 'order.item.added': { orderId: string; sku: string }
    readonly 'user.deleted': { userId: string }
  }>()
  hub.on('order.created', (event) => {
    expectTypeOf(event.type).toEqualTypeOf<'order.created'>()
    expectTypeOf(event.payload).toEqualTypeOf<{ orderId: string; total: number }>()
    expectTypeOf(event.id).toEqualTypeOf<number>()
  })
})

test('a pattern gives the union of the types it matches, narrowing on the type', () => {
  hub.on('order.*', (event) => {
    expectTypeOf(event.type).toEqualTypeOf<'order.created' | 'order.item.added'>()
    if (event.type === 'order.created') expectTypeOf(event.payload.total).toEqualTypeOf<number>()
    else expectTypeOf(event.payload.sku).toEqualTypeOf<string>()
  })
  hub.on('order.item.*', (event) => expectTypeOf(event.type).toEqualTypeOf<'order.item.added'>())
  hub.on('*', (event) =>
    expectTypeOf(event.type).toEqualTypeOf<'order.created' | 'order.item.added' | 'user.deleted'>(),
  )
  // @ts-expect-error no such type
  hub.on('order.deleted', ignored.on)
  // @ts-expect-error no type is below user.deleted
  hub.on('user.deleted.*', ignored.on)
})

test('publishers are typed by what the schema takes in', () => {
  hub.publish({ type: 'order.created', payload: { orderId: 'a' }, tags: ['eu'], orderingKey: 'a' })
  hub.publish({ type: 'user.deleted', payload: { userId: 'u' } })
  hub.publish({ title: 'Work without a type', tags: 'mail', payload: null })
  // @ts-expect-error the payload of another type
  hub.publish({ type: 'user.deleted', payload: { orderId: 'a' } })
  // @ts-expect-error no such type
  hub.publish({ type: 'user.created', payload: { userId: 'u' } })
  // @ts-expect-error no payload
  hub.publish({ type: 'user.deleted' })
})

test('without a catalogue every type is accepted and every payload unknown', () => {
  expectTypeOf<EventToPublish<Catalogue>>().toEqualTypeOf<EventInput>()
  untypedHub.publish({ type: 'whatever.you.like', payload: 7 })
  untypedHub.publish({ type: 'exact', payloadText: '1e400' })
  untypedHub.on('whatever.*', (event) => {
    expectTypeOf(event.type).toEqualTypeOf<`whatever.${string}`>()
    expectTypeOf(event.payload).toEqualTypeOf<unknown>()
  })
  untypedHub.on('exact', (event) => expectTypeOf(event.type).toEqualTypeOf<'exact'>())
  untypedHub.on('*', (event) => expectTypeOf(event.type).toEqualTypeOf<string>())
})

test.each([
  ['a bare schema', z.object({ id: z.string() })],
  ['nothing', undefined],
])('a catalogue with %s in place of a definition is refused by the type it stands for', (_, definition) => {
  const define = () => defineEvents({ 'order.created': definition as never })
  expect(define).toThrow('Expected events[order.created] to be made by event(schema) or event()')
})
