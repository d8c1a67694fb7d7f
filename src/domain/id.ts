import { randomBytes } from 'node:crypto'
import { badOption } from './bad-value.ts'
import { integer } from './subscription.ts'

/** An event id is an integer of 53 bits: 10 bits of shard, 43 bits counted by the shard itself. */
const idsPerShard = 2 ** 43
/** By how much event ids jump when another database server takes over. */
export const idJump = 2 ** 28
const shardMax = 2 ** 10 - 1
const subscriptionNoMax = 2 ** 21 - 1
const timeMsMax = 2 ** 48 - 1

export function eventShard(eventId: number): number {
  return Math.floor(eventId / idsPerShard)
}

/** The first event id of a shard. Id 0 is not used, so every shard skips its first number. */
export function shardFirstId(shard: number): number {
  integer('shard', shard, 0, shardMax)
  return shard * idsPerShard + 1
}

/** Checked here, since PostgreSQL would refuse other values with its own error. */
export function checkEventId(eventId: unknown): void {
  if (!Number.isSafeInteger(eventId)) throw badOption('eventId', 'the id of an event', eventId)
}

export function checkEventIds(eventIds: unknown): void {
  if (!Array.isArray(eventIds)) throw badOption('eventIds', 'a list of ids', eventIds)
  for (const eventId of eventIds) checkEventId(eventId)
}

const uuidForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

export function checkDeadLetterIds(ids: unknown): void {
  if (!Array.isArray(ids)) throw badOption('deadLetterIds', 'a list of ids', ids)
  const stranger = ids.findIndex((id) => typeof id !== 'string' || !uuidForm.test(id))
  if (stranger >= 0) throw badOption('deadLetterId', 'the id of a dead letter', ids[stranger])
}

export interface DeliveryKey {
  readonly createdAtMs: number
  readonly eventId: number
  readonly subscriptionNo: number
}

/**
 * The id of a delivery is computed, not drawn: a UUIDv7 whose free bits name the event and the
 * subscription, so that the id is constant over retries and leads to the delivery without an index.
 *
 *     createdAtMs (48) | version 7 | eventId, high 12 | variant | eventId, low 41 | subscriptionNo (21)
 *
 * Multiplication and division stand in for shifts, which JavaScript cuts to 32 bits.
 */
export function deliveryId({ createdAtMs, eventId, subscriptionNo }: DeliveryKey): string {
  integer('createdAtMs', createdAtMs, 0, timeMsMax)
  integer('eventId', eventId, 1, Number.MAX_SAFE_INTEGER)
  integer('subscriptionNo', subscriptionNo, 0, subscriptionNoMax)
  const eventLow = eventId % 2 ** 41
  return formatUuidv7({
    timeMs: createdAtMs,
    randA: Math.floor(eventId / 2 ** 41),
    randBHigh14: Math.floor(eventLow / 2 ** 27),
    randBLow48: (eventLow % 2 ** 27) * 2 ** 21 + subscriptionNo,
  })
}

/** Undefined if the text is not a UUIDv7 or names no event. The delivery need not exist. */
export function parseDeliveryId(uuid: string): DeliveryKey | undefined {
  if (!uuidv7Form.test(uuid)) return undefined
  const { timeMs, randA, randBHigh14, randBLow48 } = splitUuidv7(uuid)
  const eventId = randA * 2 ** 41 + randBHigh14 * 2 ** 27 + Math.floor(randBLow48 / 2 ** 21)
  if (eventId === 0) return undefined
  return { createdAtMs: timeMs, eventId, subscriptionNo: randBLow48 % 2 ** 21 }
}

/** The last id given out. Within a millisecond its 26 high random bits count up; the other 48 are drawn again. */
const last = { timeMs: 0, counter: 0 }

/** A random UUIDv7, greater than every earlier one of this process, even if the clock goes back. */
export function uuidv7(nowMs: number): string {
  integer('nowMs', nowMs, 0, timeMsMax)
  const random = randomBytes(10)
  if (nowMs > last.timeMs) {
    last.timeMs = nowMs
    last.counter = random.readUInt32BE(6) % 2 ** 25 // the upper half is room to count
  } else if (++last.counter === 2 ** 26) {
    last.timeMs++
    last.counter = 0
  }
  return formatUuidv7({
    timeMs: last.timeMs,
    randA: Math.floor(last.counter / 2 ** 14),
    randBHigh14: last.counter % 2 ** 14,
    randBLow48: random.readUIntBE(0, 6),
  })
}

const uuidv7Form = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i

interface Uuidv7Parts {
  readonly timeMs: number
  readonly randA: number
  readonly randBHigh14: number
  readonly randBLow48: number
}

function formatUuidv7({ timeMs, randA, randBHigh14, randBLow48 }: Uuidv7Parts): string {
  const time = hex(timeMs, 12)
  return `${time.slice(0, 8)}-${time.slice(8)}-7${hex(randA, 3)}-${hex(0x8000 + randBHigh14, 4)}-${hex(randBLow48, 12)}`
}

function splitUuidv7(uuid: string): Uuidv7Parts {
  return {
    timeMs: Number.parseInt(uuid.slice(0, 8) + uuid.slice(9, 13), 16),
    randA: Number.parseInt(uuid.slice(15, 18), 16),
    randBHigh14: Number.parseInt(uuid.slice(19, 23), 16) % 2 ** 14,
    randBLow48: Number.parseInt(uuid.slice(24), 16),
  }
}

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, '0')
}
