import { Batcher } from '../core/batcher.ts'
import type { Database } from '../db/database.ts'
import type { NewEvent } from '../domain/event.ts'
import { isLimited, type Subscription } from '../domain/subscription.ts'
import { type Published, toStored } from '../engine/publish.ts'
import { PosthornError } from '../errors.ts'
import { type Draw, drawMemory, laneName, type MemoryRoute } from './draw-memory.ts'
import type { HeldBack } from './held-back.ts'
import type { MemoryClock } from './memory-clock.ts'
import type { MemoryQueue } from './memory-queue.ts'
import type { OpenQueues, Persister } from './persister.ts'
import { type LaneKeys, routeMemory } from './route-memory.ts'

export interface MemoryIntakeOptions {
  readonly db: Database
  readonly clock: MemoryClock
  readonly queues: OpenQueues
  readonly heldBack: HeldBack
  /** Another process has the queue. */
  readonly lost: (queue: MemoryQueue) => void
}

/** A call is taken into memory as a whole, or stored, or refused. */
type Verdict = readonly Published[] | 'stored' | Error

const callsMax = 1_000
const eventsMax = 5_000
const typesMax = 10_000
/** If the routes keep changing meanwhile, the events are stored after this many tries. */
const looksMax = 3
const retryAfterSeconds = 1

/**
 * Where events come into memory that are owed to memory queues of this process and to no other subscription. Calls that
 * arrive together share one statement, which draws their ids and tells whether the routes are still what is remembered.
 */
export class MemoryIntake {
  readonly #options: MemoryIntakeOptions
  /** The routes that are known, as of this version of them. */
  readonly #routes = new Map<string, MemoryRoute>()
  #version = 0
  readonly #batcher: Batcher<readonly NewEvent[], Verdict>

  constructor(options: MemoryIntakeOptions) {
    this.#options = options
    this.#batcher = new Batcher({
      flush: (calls) => this.#flush(calls),
      itemsMax: callsMax,
      sizeMax: eventsMax,
      sizeOf: (events) => events.length,
      // One after the other: the order of ids is the order of calls.
      flushesMax: 1,
    })
  }

  /** Undefined: the events are to be stored. Throws if a queue refuses them. */
  async take(events: readonly NewEvent[]): Promise<readonly Published[] | undefined> {
    if (this.#options.queues.size === 0 || !events.every((event) => this.#mayPass(event))) return undefined
    const verdict = await this.#batcher.add(events)
    if (verdict instanceof Error) throw verdict
    return verdict === 'stored' ? undefined : verdict
  }

  /** The events were stored after all: if memory could have had them, what is known of their types is outdated. */
  stored(events: readonly NewEvent[], published: readonly Published[]): void {
    for (const [place, event] of events.entries()) {
      const { owed, endsAt } = published[place] as Published
      if (endsAt !== null || owed.length === 0 || !isPlain(event)) continue
      if (owed.every((no) => this.#isUsable(no))) this.#routes.delete(event.type as string)
    }
  }

  settled(): Promise<void> {
    return this.#batcher.settled()
  }

  #mayPass(event: NewEvent): boolean {
    if (!isPlain(event)) return false
    const route = this.#routes.get(event.type as string)
    return route === undefined || this.#suits(route)
  }

  #suits({ owed, inspectsPayload, ages }: MemoryRoute): boolean {
    if (ages || owed.length === 0) return false
    const isUsable = (no: number) => this.#isUsable(no)
    return inspectsPayload ? owed.some(isUsable) : owed.every(isUsable)
  }

  #isUsable(no: number): boolean {
    const open = this.#options.queues.get(no)
    return open?.queue.hold.isOurs(performance.now()) === true && isUnlimited(open.queue.subscription)
  }

  async #flush(calls: (readonly NewEvent[])[]): Promise<Verdict[]> {
    await Promise.all([...this.#options.queues.values()].map((persister) => persister.room()))
    const events = calls.flat()
    for (let look = 0; look < looksMax; look++) {
      const looked = await this.#lookInto(events)
      const draw = await this.#draw(events, looked)
      if (draw !== undefined) return this.#letIn(calls, draw, looked)
    }
    return calls.map(() => 'stored')
  }

  /** Routes the events whose payload a subscription inspects, as far as that is known. */
  async #lookInto(events: readonly NewEvent[]): Promise<ReadonlyMap<NewEvent, LaneKeys>> {
    const inspected = events.filter(({ type }) => this.#routes.get(type as string)?.inspectsPayload)
    if (inspected.length === 0) return new Map()
    const owed = await routeMemory(this.#options.db, inspected)
    return new Map(inspected.map((event, place) => [event, owed[place] as LaneKeys]))
  }

  /** Undefined: the routes have changed meanwhile, or were not known. */
  async #draw(
    events: readonly NewEvent[],
    looked: ReadonlyMap<NewEvent, LaneKeys>,
  ): Promise<Draw | undefined> {
    const { db, queues, heldBack, clock, lost } = this.#options
    const types = new Set(events.map(({ type }) => type as string))
    const unknown = [...types].filter((type) => !this.#routes.has(type))
    const open = [...queues.values()].filter(({ queue }) => !queue.isLost)
    heldBack.watch()
    const draw = await drawMemory(db, {
      events: events.length,
      types: unknown,
      keys: keysOf(events, looked),
      queues: open.map(({ queue }) => ({ no: queue.subscription.no, token: queue.token })),
    })
    clock.set(draw.nowMs)
    for (const { queue } of open) if (!draw.held.has(queue.subscription.no)) lost(queue)
    return this.#learn(draw, [...types]) ? draw : undefined
  }

  /** Whether all is known now that has to be, as of one moment. */
  #learn({ version, routes }: Draw, types: readonly string[]): boolean {
    if (this.#version !== version || this.#routes.size > typesMax) this.#routes.clear()
    this.#version = version
    for (const [type, route] of routes) this.#routes.set(type, route)
    // If a payload has to be inspected and that was not known, the event has not been routed by itself.
    return types.every((type) => this.#routes.has(type) && !routes.get(type)?.inspectsPayload)
  }

  /** Nothing is awaited from here on, so nothing changes in between. */
  #letIn(
    calls: readonly (readonly NewEvent[])[],
    draw: Draw,
    looked: ReadonlyMap<NewEvent, LaneKeys>,
  ): Verdict[] {
    let drawn = 0
    return calls.map((events) => {
      const ids = draw.ids.slice(drawn, drawn + events.length)
      drawn += events.length
      const owed = events.map((event) => this.#owed(event, looked))
      const verdict = this.#judge(events, owed, draw)
      return verdict === 'memory' ? this.#add(events, owed, ids, new Date(draw.nowMs)) : verdict
    })
  }

  #owed(event: NewEvent, looked: ReadonlyMap<NewEvent, LaneKeys>): LaneKeys {
    const found = looked.get(event)
    if (found !== undefined) return found
    const { owed } = this.#routes.get(event.type as string) as MemoryRoute
    return new Map(owed.map((no) => [no, event.orderingKey]))
  }

  #judge(events: readonly NewEvent[], owed: readonly LaneKeys[], draw: Draw): 'memory' | 'stored' | Error {
    const sizes = new Map<number, { events: number; chars: number }>()
    for (const [place, keys] of owed.entries()) {
      const event = events[place] as NewEvent
      if (keys.size === 0 || this.#routes.get(event.type as string)?.ages) return 'stored'
      let draining = 0
      for (const [no, key] of keys) {
        if (!this.#isUsable(no) || (key !== null && this.#isElsewhere(no, key, draw))) return 'stored'
        // The queue is about to be given up, and this process has not heard of it yet.
        if (draw.held.get(no) === 'deleted') return 'stored'
        if (draw.held.get(no) === 'draining') draining++
        const size = sizes.get(no) ?? { events: 0, chars: 0 }
        sizes.set(no, { events: size.events + 1, chars: size.chars + event.payloadText.length })
      }
      if (draining === keys.size) {
        const [no] = keys.keys()
        const { queue } = this.#options.queues.get(no as number) as Persister
        return new PosthornError('QUEUE_DRAINING', { queue: queue.subscription.name })
      }
      if (draining > 0) return 'stored'
    }
    return this.#findRoom(sizes)
  }

  /** The lane has something in the database, and goes on there. */
  #isElsewhere(no: number, key: string, { busyLanes }: Draw): boolean {
    const { queues, heldBack } = this.#options
    const isClosing = queues.get(no)?.queue.isClosing(key)
    return isClosing || busyLanes.has(laneName(no, key)) || heldBack.hasBegun(no, key)
  }

  #findRoom(sizes: ReadonlyMap<number, { events: number; chars: number }>): 'memory' | 'stored' | Error {
    for (const [no, { events, chars }] of sizes) {
      const { queue } = this.#options.queues.get(no) as Persister
      if (!queue.isFull(events, chars)) continue
      const { name, queue: config } = queue.subscription
      return config.onFull === 'hold'
        ? 'stored'
        : new PosthornError('QUEUE_FULL', { queue: name, retryAfterSeconds })
    }
    return 'memory'
  }

  #add(
    events: readonly NewEvent[],
    owed: readonly LaneKeys[],
    ids: readonly number[],
    createdAt: Date,
  ): Published[] {
    const { queues } = this.#options
    const touched = new Set<Persister>()
    for (const [place, keys] of owed.entries()) {
      const event = toStored(events[place] as NewEvent, { id: ids[place] as number, createdAt })
      for (const [no, laneKey] of keys) {
        const persister = queues.get(no) as Persister
        persister.queue.add({ event, laneKey })
        touched.add(persister)
      }
    }
    for (const persister of touched) persister.added()
    const pressed = [...touched].filter(({ queue }) => queue.isPressed)
    const pressedNos = new Map(pressed.map(({ queue }) => [queue.subscription.no, queue.subscription.name]))
    // Field by field: spreading takes ten times as long, and this is done for every event.
    return owed.map((keys, place) => ({
      id: ids[place] as number,
      replayed: false,
      conflict: false,
      owed: [...keys.keys()],
      unwanted: false,
      createdAt,
      endsAt: null,
      refused: null,
      pressed: pressedNos.size === 0 ? noQueues : [...keys.keys()].flatMap((no) => pressedNos.get(no) ?? []),
    }))
  }
}

const noQueues: readonly string[] = []

/** Limits over the fleet are kept in the database, and so is what they hold. */
function isUnlimited(subscription: Subscription): boolean {
  return !isLimited(subscription) && subscription.keyConcurrency === null
}

/** Events that need more than memory can do are stored. */
function isPlain(event: NewEvent): boolean {
  const { type, tags, idempotencyKey, runAt, expiresAt, concurrencyKey } = event
  return type !== null && (tags ?? idempotencyKey ?? runAt ?? expiresAt ?? concurrencyKey) === null
}

function keysOf(events: readonly NewEvent[], looked: ReadonlyMap<NewEvent, LaneKeys>): string[] {
  const keys = new Set<string>()
  for (const event of events) {
    const lanes = looked.get(event)?.values() ?? [event.orderingKey]
    for (const key of lanes) if (key !== null) keys.add(key)
  }
  return [...keys]
}
