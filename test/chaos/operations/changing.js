/** Subscriptions that were made over HTTP: changed, paused, tested, deleted and made again. */
import { setTimeout as delay } from 'node:timers/promises'
import { slotFor } from '../slots.js'
import { hookTimeoutMs, outcomes } from '../topology.js'
import { createSubscriber, wishFor } from '../world.js'

export const changing = {
  'subscriber.change': { weight: 3, place: 'server', run: changeSubscriber },
  'subscriber.pause': { weight: 1, place: 'server', run: pauseSubscriber },
  'subscriber.deactivate': { weight: 1, place: 'server', run: deactivate },
  'subscriber.test': { weight: 1, place: 'server', run: testSubscriber },
  'subscriber.rotate': { weight: 1, place: 'server', run: rotateSecret },
  'subscriber.delete': { weight: 1, place: 'server', run: recreate },
  'library.unsubscribe': { weight: 1, place: 'worker', run: recreateByLibrary },
}

/** Every option of a subscription that HTTP can change. */
export async function changeSubscriber(world, random, given) {
  const s = given?.s ?? random.pick(['pulled', 'hook', 'client'])
  const change =
    given?.change ??
    random.pick([...changesOf(random, s), ...(s === 'hook' ? hookChanges(world, random) : [])])
  const request = { method: 'PATCH', path: `/subscribers/${world.subscriberIds.get(s)}`, body: change }
  await world.operate('subscriber.change', { s, options: change }, () => world.ask(random, request))
}

const changesOf = (random, s) => [
  { key_concurrency: random.pick([null, 1, 2]) },
  { max_concurrency: random.pick([null, 2, 8]) },
  { rate_per_second: random.pick([null, 150, 1_000, 1_000_000]) },
  { on_exhausted: random.pick(['skip', 'block']) },
  { ordering_key: random.pick([null, '/payload/p']) },
  { filter: random.pick([null, { '/payload/f': true }]) },
  { tags: random.pick([null, null, 'a']) },
  {
    event_types: random.pick([
      [`${s}.*`, 'all.*', 'nobody.*'],
      [`${s}.*`, 'all.*'],
    ]),
  },
  s === 'hook' ? { retry_backoff_seconds: [0.05, 0.1, 0.05] } : { retry_delay_seconds: 0.08, max_retries: 4 },
  { lease_seconds: random.integer(2, 4) },
]

const hookChanges = (world, random) => [
  { url: `${world.receiverUrl}/hook${random.pick(['', '?again'])}` },
  { headers: { 'x-team': random.pick(['a', 'b', null]), authorization: 'Bearer chaos' } },
  { format: random.pick(['standard', 'raw', 'cloudevents', 'cloudevents-binary']) },
  { timeout_ms: random.integer(1_000, hookTimeoutMs) },
  { outcomes: { ...outcomes, ...random.pick([{}, { 499: 'bury' }]) } },
]

const pausable = ['pulled', 'hook', 'client', 'temphook']

/** For a moment, as with queues. */
async function pauseSubscriber(world, random) {
  const s = random.pick(pausable)
  const path = `/subscribers/${world.subscriberIds.get(s)}/pause`
  world.state.paused.add(s)
  await world.operate('subscriber.pause', { s, change: 'pause' }, () => world.ask(random, { path }))
  await delay(random.integer(50, 1_200))
  await resumeSubscriber(world, random, s)
}

async function deactivate(world, random) {
  const s = random.pick(pausable)
  const request = {
    method: 'PATCH',
    path: `/subscribers/${world.subscriberIds.get(s)}`,
    body: { is_active: false },
  }
  world.state.paused.add(s)
  await world.operate('subscriber.deactivate', { s, change: 'pause' }, () => world.ask(random, request))
  await delay(random.integer(50, 1_200))
  await resumeSubscriber(world, random, s)
}

/** Until it is answered, in one of both ways. One that is deleted meanwhile needs no more. */
export async function resumeSubscriber(world, random, s) {
  for (let tries = 0; tries < 60; tries++) {
    const path = `/subscribers/${world.subscriberIds.get(s)}`
    const request = random.pick([
      { path: `${path}/resume` },
      { method: 'PATCH', path, body: { is_active: true } },
    ])
    const { status } = await world.operate('subscriber.resume', { s, change: 'resume' }, () =>
      world.ask(random, request),
    )
    if (status === 200 || status === 404) return void world.state.paused.delete(s)
    await delay(200)
  }
}

async function testSubscriber(world, random) {
  const s = random.pick(['hook', 'temphook'])
  const path = `/subscribers/${world.subscriberIds.get(s)}/test`
  await world.operate('subscriber.test', { s }, () => world.ask(random, { path }))
}

async function rotateSecret(world, random) {
  const s = random.pick(['hook', 'temphook'])
  const path = `/subscribers/${world.subscriberIds.get(s)}/rotate-secret`
  await world.operate('subscriber.rotate', { s }, () => world.ask(random, { path }))
}

/** Only while nobody else does the same: the next one is made under the same name. */
export async function whileGone(world, s, work) {
  if (world.state.gone.has(s)) return
  world.state.gone.add(s)
  try {
    await work()
  } finally {
    world.state.gone.delete(s)
  }
}

async function recreate(world, random) {
  const s = random.pick(['temp', 'temphook'])
  await whileGone(world, s, async () => {
    const path = `/subscribers/${world.subscriberIds.get(s)}`
    const gone = await world.operate('subscriber.delete', { s, deletes: true }, () =>
      world.ask(random, { method: 'DELETE', path }),
    )
    if (gone.status !== 204 && gone.status !== 404) return
    await delay(random.integer(0, 300))
    await create(world, random, s)
  })
}

async function create(world, random, s) {
  for (let tries = 0; tries < 60; tries++) {
    const answer = await world.operate('subscriber.create', { s, creates: true }, () =>
      createSubscriber(Object.assign(Object.create(world), { random }), wishFor(world, s)),
    )
    // 409: an earlier try was heard after all.
    if (answer.type === 'ok' || answer.status === 409) return
    await delay(200)
  }
}

/** By a worker: what the other processes know of it is old. */
async function recreateByLibrary(world, random) {
  await whileGone(world, 'temp', async () => {
    const slot = slotFor(world, random, 'worker')
    const gone = await world.operate('library.unsubscribe', { s: 'temp', deletes: true }, () =>
      slot.command('unsubscribe', { name: 'temp' }),
    )
    if (gone.type === 'info') return
    await delay(random.integer(0, 300))
    for (let tries = 0; tries < 60; tries++) {
      const made = await world.operate('library.subscribe', { s: 'temp', creates: true }, () =>
        random.pick(world.of('worker')).command('subscribe', { name: 'temp' }),
      )
      if (made.type === 'ok') return void world.subscriberIds.set('temp', made.value)
      await delay(200)
    }
  })
}
