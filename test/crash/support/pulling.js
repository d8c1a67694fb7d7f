import { setTimeout as delay } from 'node:timers/promises'

/**
 * A worker that knows nothing but HTTP: it leases, records what it begins and ends, and says what came of it until
 * it is told that this is known, or that the lease is lost.
 */
export function startPulling(apis, { name, random, record, subscription, leaseSecs }) {
  const query = `subscription=${subscription}&worker_id=${name}&limit=${random.integer(1, 4)}&wait=1&lease=${leaseSecs}`
  const violations = []
  const counts = { pollsUnanswered: 0, settlementsRepeated: 0 }
  const worker = { name, random, record, subscription, apis, counts, violations }
  let isOver = false
  const done = (async () => {
    while (!isOver) {
      const { status, json } = await apis.call(random, { method: 'GET', path: `/events/subscribe?${query}` })
      if (status === 200) await handle(worker, json)
      else if (status === 0) counts.pollsUnanswered++
      else if (![204, 503, 504].includes(status)) violations.push(`a poll was answered ${status}`)
      if (status !== 200 && status !== 204) await delay(random.integer(5, 50))
    }
  })()
  return {
    async stop() {
      isOver = true
      await done
      return { counts, violations }
    },
  }
}

async function handle(worker, events) {
  const attempts = []
  for (const event of events) attempts.push(await attempt(worker, event))
  const settle = attempts.length > 1 && worker.random.chance(0.5) ? settleTogether : settleEach
  await settle(worker, attempts)
}

let begun = 0

async function attempt({ name, random, record, subscription }, event) {
  const what = { pid: name, no: ++begun, subscription, id: event.id, key: event.ordering_key }
  record('begin', { ...what, attempt: event.attempt, failures: event.retry_count })
  await delay(random.next() * 10)
  const outcome = random.chance(0.05) ? 'fail' : 'ok'
  record('end', { ...what, outcome })
  return { what, outcome, event }
}

async function settleEach(worker, attempts) {
  for (const { what, outcome, event } of attempts) {
    const verb = outcome === 'ok' ? 'complete' : 'fail'
    const { status } = await untilAnswered(worker, {
      path: `/events/${event.id}/${verb}`,
      body: { lease_token: event.lease_token, ...(outcome === 'fail' && { retry_after_ms: 20 }) },
    })
    note(worker, { what, outcome }, status)
  }
}

async function settleTogether(worker, attempts) {
  const outcomes = attempts.map(({ outcome, event }) => ({
    event_id: event.id,
    lease_token: event.lease_token,
    outcome: outcome === 'ok' ? 'complete' : 'fail',
    ...(outcome === 'fail' && { retry_after_ms: 20 }),
  }))
  const { status, json } = await untilAnswered(worker, { path: '/events/settle', body: { outcomes } })
  for (const [place, one] of attempts.entries()) {
    note(worker, one, status === 200 ? json.results[place].status : status)
  }
}

async function untilAnswered({ apis, random, counts }, request) {
  for (;;) {
    const answer = await apis.call(random, request)
    if (![0, 503, 504].includes(answer.status)) return answer
    counts.settlementsRepeated++
    await delay(random.integer(5, 50))
  }
}

function note({ record, violations }, { what, outcome }, status) {
  const settlement = outcome === 'ok' ? 'complete' : 'retry'
  if (status === 200) record('settled', { ...what, settlement })
  else if (status === 409) record('lost', what)
  else violations.push(`a settlement of ${what.id} was answered ${status}`)
}
