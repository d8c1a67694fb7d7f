/** Events as the driver plans them, and as each way of publishing wants them. */
import { digestOf, isFragile, payloadTextOf, withMember } from '../payload-text.js'

/**
 * @typedef {object} Planned
 * @property {number} u the event's own number, in its payload too: it outlives an answer that never came
 * @property {string} type
 * @property {string | null} key
 * @property {string | null} [ckey] concurrency key
 * @property {string | null} [tags]
 * @property {number | null} [expiresMs] from now
 * @property {number | null} [ageMs] after which its type may make it expire
 * @property {number | null} [delayMs]
 * @property {number | null} [maxRetries]
 * @property {string | null} [idem]
 * @property {object} payload what it says; its text is what is sent and compared
 */

const longLivedKeys = 10
/** See `type.define`. */
export const typeAgeMs = 3_000

/** An event with every mix of fields. `mix` fixes what a theme wants fixed. */
export function planEvent(world, random, family, mix = {}) {
  const u = world.nextUid()
  const maybe = (share, value) => (random.chance(share) ? value() : null)
  const expiresMs = maybe(0.1, () => random.integer(200, 4_000))
  const { payload, ...rest } = mix
  // jsonb can hold neither: whoever looks into such a payload finds nothing.
  const unreadable = maybe(0.03, () => random.pick(['\u0000', '\ud800']))
  return {
    u,
    type: `${family}.${random.pick(['x', 'y', 'z'])}`,
    key: maybe(0.6, () => `${family}-k${random.integer(1, longLivedKeys)}`),
    ckey: maybe(0.3, () => `c${random.integer(1, 4)}`),
    tags: maybe(0.12, () => random.pick(['a', 'b', 'a,b', 'c,work'])),
    expiresMs,
    delayMs: expiresMs === null ? maybe(0.06, () => random.integer(50, 1_500)) : null,
    maxRetries: maybe(0.1, () => random.integer(1, 5)),
    idem: maybe(0.15, () => `i${world.seed}-${u}`),
    ageMs: family === 'typed' ? typeAgeMs : null,
    ...rest,
    payload: {
      u,
      p: `p${random.integer(1, 6)}`,
      f: random.chance(0.5),
      ...(unreadable && { unreadable }),
      ...payload,
    },
  }
}

export function planEvents(world, random, family, count, mix = () => ({})) {
  return Array.from({ length: count }, (_, place) => planEvent(world, random, family, mix(place)))
}

const at = (world, ms) => (ms == null ? null : new Date(world.nowMs() + ms).toISOString())

/** As the library takes it. Times stay texts until they are there. */
export function forLibrary(world, planned) {
  const { type, key, ckey, tags, expiresMs, delayMs, maxRetries, idem, payload } = planned
  return withoutNulls({
    ...(isFragile(planned.u) ? { payloadText: payloadTextOf(planned) } : { payload }),
    ...{ type, orderingKey: key, concurrencyKey: ckey, tags, maxRetries, idempotencyKey: idem },
    ...{ runAt: at(world, delayMs), expiresAt: at(world, expiresMs) },
  })
}

/** All but its payload, which goes as text. */
export function forHttp(world, planned) {
  const { type, key, ckey, tags, expiresMs, delayMs, maxRetries, idem } = planned
  return withoutNulls({
    ...{ type, ordering_key: key, concurrency_key: ckey, tags, max_retries: maxRetries },
    ...{ idempotency_key: idem, run_at: at(world, delayMs), expires_at: at(world, expiresMs) },
  })
}

export const httpText = (planned, fields) => withMember(fields, 'payload', payloadTextOf(planned))

export const withoutNulls = (given) =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value != null))

/** What the history keeps of it. */
export function noted(planned) {
  const { u, type, key, ckey, tags, expiresMs, ageMs, delayMs, maxRetries, idem, payload, isProbe } = planned
  return withoutNulls({
    hash: digestOf(payloadTextOf(planned)),
    isProbe,
    u,
    type,
    key,
    ckey,
    tags,
    expiresMs: expiresMs ?? ageMs,
    delayMs,
    maxRetries,
    idem,
    p: payload.p,
    f: payload.f,
    isUnreadable: payload.unreadable === undefined ? null : true,
  })
}

const knownMax = 3_000

/** Acknowledged: operations may now be done to it. */
export function remember(world, planned, answers) {
  for (const [place, one] of planned.entries()) {
    if (one.type.startsWith('probe.')) continue
    const answer = answers[place]
    if (answer?.id !== undefined) world.known.push({ ...one, id: answer.id })
  }
  if (world.known.length > knownMax) world.known.splice(0, world.known.length - knownMax)
}
