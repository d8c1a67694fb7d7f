/** Other languages: SQL in the caller's own session, and CloudEvents. */
import { payloadTextOf, withMember } from '../payload-text.js'
import { slotFor } from '../slots.js'
import { forHttp, forLibrary, noted, planEvents, remember, withoutNulls } from './planning.js'
import { conclude, some } from './publishing.js'

export const speaking = {
  'publish.sql': { weight: 3, place: 'worker', run: (world, random) => bySql(world, random, { count: 1 }) },
  'publish.sqlTransaction': {
    ...{ weight: 2, place: 'worker' },
    run: (world, random) =>
      bySql(world, random, {
        count: random.integer(2, 6),
        commits: random.chance(0.7),
        lateMs: random.integer(0, 800),
      }),
  },
  'publish.cloudEvent': {
    weight: 2,
    place: 'server',
    run: (world, random) => asCloudEvents(world, random, 1),
  },
  'publish.cloudEventBatch': {
    ...{ weight: 1, place: 'server' },
    run: (world, random) => asCloudEvents(world, random, random.integer(2, 10)),
  },
}

/** Each event is a statement of its own; several are in one transaction, which may come late or not at all. */
function bySql(world, random, { count, ...how }) {
  return publishBySql(world, random, some(world, random, count), how)
}

export async function publishBySql(world, random, planned, { commits = true, lateMs = 0 } = {}) {
  const slot = slotFor(world, random, 'worker')
  const undone = commits ? [] : planned.map(({ u }) => u)
  const name = planned.length === 1 ? 'publish.sql' : 'publish.sqlTransaction'
  const answer = await world.operate(name, { via: 'sql', undone, events: planned.map(noted) }, async () => {
    const calls = planned.map((one) => sqlCall(world, one))
    const given = await slot.command('publishBySql', { calls, commits, lateMs })
    return { ...given, told: given.type === 'ok' ? { answers: given.value } : { why: given.message } }
  })
  if (answer.type === 'ok' && commits) remember(world, planned, answer.value)
  return answer
}

function sqlCall(world, planned) {
  const { type, title, orderingKey, concurrencyKey, tags, maxRetries, idempotencyKey, runAt, expiresAt } =
    forLibrary(world, planned)
  const named = withoutNulls({
    ...{ title, ordering_key: orderingKey, concurrency_key: concurrencyKey, tags, max_retries: maxRetries },
    ...{ idempotency_key: idempotencyKey, run_at: runAt, expires_at: expiresAt },
  })
  const names = Object.keys(named).map((name, n) => `, ${name} => $${n + 3}`)
  return {
    text: `select __schema__.publish($1, $2${names.join('')}) as id`,
    values: [type, payloadTextOf(planned), ...Object.values(named)],
  }
}

/** `source` and `id` are the idempotency key: sent twice, it is stored once. */
async function asCloudEvents(world, random, count) {
  const mix = () => ({ tags: null, delayMs: null, ckey: null, maxRetries: null, idem: null })
  const planned = planEvents(world, random, some(world, random, 1)[0].type.split('.')[0], count, mix)
  const name = count === 1 ? 'publish.cloudEvent' : 'publish.cloudEventBatch'
  const request = cloudRequest(world, random, planned)
  for (let times = random.integer(1, 2); times > 0; times--) {
    const answer = await world.operate(name, { via: 'cloudevents', events: planned.map(noted) }, async () => {
      const given = await world.ask(random, request)
      if (given.type !== 'ok') return { ...given, told: { why: given.json?.detail } }
      const made = count === 1 ? [given.json] : given.json.events
      return { ...given, made, told: { answers: made.map(({ id }) => ({ id })) } }
    })
    conclude(
      world,
      planned,
      { ...answer, type: answer.type === 'info' ? 'fail' : answer.type },
      {
        ...{ via: 'cloudevents', made: answer.made },
      },
    )
  }
}

function cloudRequest(world, random, planned) {
  const events = planned.map((one) => {
    const { type, ordering_key: key, expires_at: endsAt } = forHttp(world, one)
    return withoutNulls({
      ...{ specversion: '1.0', id: `u${one.u}`, source: `/chaos/${world.seed}`, type },
      ...{ datacontenttype: 'application/json', partitionkey: key, expirytime: endsAt },
    })
  })
  const data = planned.map(payloadTextOf)
  const texts = events.map((attributes, place) => withMember(attributes, 'data', data[place]))
  if (events.length > 1)
    return {
      path: '/events',
      text: `[${texts.join(',')}]`,
      contentType: 'application/cloudevents-batch+json',
    }
  if (random.chance(0.5))
    return { path: '/events', text: texts[0], contentType: 'application/cloudevents+json' }
  const { datacontenttype: contentType, ...rest } = events[0]
  const headers = Object.fromEntries(Object.entries(rest).map(([field, value]) => [`ce-${field}`, value]))
  return { path: '/events', text: data[0], contentType, headers }
}
