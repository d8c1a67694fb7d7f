import { setTimeout as delay } from 'node:timers/promises'
import { monotonicUs } from './recorder.js'

/** From the first attempt on. */
const acknowledgedMsMax = 60_000
const abandonedShare = 0.25

/**
 * Publishes over HTTP until it is over, one by one and in batches, each event with an idempotency key of its own. Whatever
 * is not acknowledged is sent again with the same key; some of it is given up instead, so that its fate stays unknown.
 * What was acknowledged is sent again now and then.
 *
 * @returns {Promise<{ published: object[], counts: Record<string, number>, violations: string[] }>}
 *   `published`: with `uid`, `id` (null if never acknowledged) and `doubt` (it may have been stored), besides what the checker wants
 */
export async function produceUntil(isOver, apis, { type, random, name, keys }) {
  const result = { published: [], violations: [], counts: { unknownFates: 0, replays: 0, abandoned: 0 } }
  for (let batch = 1; !isOver(); batch++) {
    const size = random.chance(0.3) ? random.integer(2, 6) : 1
    const portion = Array.from({ length: size }, (_, place) => ({
      uid: `${name}-${batch}-${place}`,
      key: random.chance(0.5) ? `k${random.integer(1, keys)}` : null,
      id: null,
      doubt: false,
      beganAt: monotonicUs(),
      ackedAt: null,
      batch: `${name}-${batch}`,
      place,
    }))
    result.published.push(...portion)
    await publish(portion, apis, { type, random, result })
    if (portion[0].ackedAt !== null && random.chance(0.05)) {
      await publish(portion, apis, { type, random, result })
    }
    await delay(random.next() * 5)
  }
  return result
}

/** Until it is acknowledged, or given up. */
async function publish(portion, apis, { type, random, result }) {
  const request = requestOf(portion, type)
  const isRepeat = portion[0].ackedAt !== null
  const beganAt = monotonicUs()
  for (;;) {
    const answer = await apis.call(random, request)
    if (answer.status === 201 || answer.status === 202) {
      return acknowledge(portion, answer, { result, isRepeat })
    }
    if (![0, 503, 504].includes(answer.status)) {
      result.violations.push(`a publish was answered ${answer.status} ${JSON.stringify(answer.json)}`)
      return undefined
    }
    if (answer.status !== 503 && answer.sent) {
      result.counts.unknownFates++
      for (const one of portion) one.doubt = true
      if (!isRepeat && random.chance(abandonedShare)) {
        result.counts.abandoned += portion.length
        return undefined
      }
    }
    if (monotonicUs() > beganAt + acknowledgedMsMax * 1000) {
      result.violations.push(`${portion[0].uid} was not acknowledged for ${acknowledgedMsMax} ms`)
      return undefined
    }
    await delay(random.integer(5, 50))
  }
}

function requestOf(portion, type) {
  const events = portion.map(({ uid, key }) => ({
    type,
    payload: { uid },
    idempotency_key: uid,
    ...(key === null ? {} : { ordering_key: key }),
  }))
  if (events.length > 1) return { path: '/events/batch', body: { events } }
  const [{ idempotency_key: idempotencyKey, ...body }] = events
  return { path: '/events', body, headers: { 'idempotency-key': idempotencyKey } }
}

function acknowledge(portion, { headers, json }, { result, isRepeat }) {
  const replayed = headers.get('idempotency-replayed') === 'true'
  const ids = portion.length === 1 ? [json.id] : json.events.map((event) => event.id)
  const [{ uid, doubt }] = portion
  if (replayed && !isRepeat) result.counts.replays++
  if (replayed && !isRepeat && !doubt) result.violations.push(`${uid} was known before it was sent`)
  if (!replayed && isRepeat) result.violations.push(`${uid} was acknowledged and stored again`)
  for (const [place, one] of portion.entries()) {
    if (one.id !== null && one.id !== ids[place]) {
      result.violations.push(`${one.uid} is event ${one.id} and event ${ids[place]}`)
    }
    one.id = ids[place]
    one.ackedAt ??= monotonicUs()
  }
}
