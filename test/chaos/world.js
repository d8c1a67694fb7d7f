/** One schema, one history, and all processes that work on it. */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { createPosthorn } from '../../dist/index.js'
import { createRandom } from '../crash/support/random.js'
import { openRecorder, readHistory } from '../crash/support/recorder.js'
import { prepareBug } from './bugs.js'
import { openHttp } from './http.js'
import { openPool } from './pool.js'
import { openSlot } from './slots.js'
import { handlers, hooks, memoryHandler, patience, pulls } from './topology.js'

let worlds = 0
const insistMax = 100
const persistMax = 900
const isKept = process.env.POSTHORN_CHAOS_KEEP !== undefined

export async function openWorld(options) {
  const { connection, server, seed, bug, bouncer, victims, servers = 2, spares = [] } = options
  const { met = new Set() } = options
  const schema = `chaos_${process.pid}_${++worlds}`
  const directory = mkdtempSync(join(tmpdir(), 'posthorn-chaos-'))
  const path = join(directory, 'history.jsonl')
  const pool = openPool(connection, { max: 10 })
  const secretKey = randomBytes(32).toString('base64')
  const first = await createPosthorn({ database: connection, schema, log: false, upkeep: false, secretKey })
  await first.stop()
  await pool.query(`create table ${schema}.chaos_ledger (event_id bigint not null, u int not null)`)
  await pool.query(`create table ${schema}.chaos_orders (no int not null)`)
  await prepareBug(bug, { pool, schema })
  const ports = []
  for (let n = 0; n <= servers; n++) ports.push(await freePort())
  const receiverPort = ports.pop()
  let operations = 0
  const state = {
    calm: false,
    handlers: structuredClone(handlers),
    memory: structuredClone(memoryHandler),
    /** Names of what was halted, configured, paused or deleted and is not yet as before. */
    ...{ halted: new Set(), configured: new Set(), paused: new Set(), gone: new Set() },
  }

  const world = {
    ...{ connection, server, bouncer, seed, schema, pool, path, ports, state, victims },
    random: createRandom(seed),
    http: openHttp(ports),
    record: openRecorder(path),
    history: () => readHistory(path),
    /** Acknowledged events, newest last; bounded, for operations to choose from. */
    known: [],
    /** Published alone, and nobody knows whether it is stored. */
    unsure: [],
    /** Ids by name of the subscriptions that were made over HTTP, and of all others. */
    subscriberIds: new Map(),
    receiverUrl: `http://127.0.0.1:${receiverPort}`,
    /** What a fault has in its hands, and which faults last or have just ended: see faults/index.js. */
    harmed: new Set(),
    lasting: new Set(),
    /** Pairs of operation and fault that have met: the others are aimed at. */
    met,
    clockOffsetMs: 0,
    clockOffsetMsMax: 0,
    nowMs: () => Date.now() + world.clockOffsetMs,
    nextUid: counter(),
    nextBurst: counter(),
    shared: () => ({
      ...{ schema, seed, bug, record: path, calm: state.calm, ports, spares },
      hub: { secretKey, allowCidrs: '127.0.0.0/8' },
    }),
    /**
     * Does something and writes down when it was asked for and what was answered.
     * @param {() => Promise<{ type: 'ok' | 'fail' | 'info' }>} work
     */
    async operate(name, fields, work) {
      const op = ++operations
      world.record('invoke', { op, name, ...fields })
      const lasting = new Set(world.lasting)
      const answer = await work()
      const { type, code, status, role, told } = answer
      const given = { ...(code && { code }), ...(status && { status }), ...(role && { roles: [role] }) }
      world.record('answer', { op, name, type, ...given, ...told })
      if (type !== 'fail') noteMeetings(world, { name, role, lasting: [...lasting, ...world.lasting] })
      return answer
    },
    /** One call of the API, as such an answer. */
    async ask(random, request) {
      const port = request.port ?? portFor(this, random)
      const { status, json, sent, headers } = await world.http.call(random, { ...request, port })
      if (status === 500) world.record('server error', { path: request.path, body: bodyOf(request), json })
      const type = typeOf({ status, sent, json })
      return { type, status, json, headers, role: `server${ports.indexOf(port)}` }
    },
    /** The same until it is answered: for what must be known once the faults are over. */
    async insist(request) {
      for (let tries = 0; ; tries++) {
        const answer = await world.ask(world.random, request)
        if (answer.type === 'ok' || answer.status === 404) return answer
        if (tries === insistMax)
          throw new Error(`${request.path} was never answered: ${JSON.stringify(answer.json)}`)
        await delay(300)
      }
    },
    async query(text, values) {
      return (await pool.query(text.replaceAll('__schema__', schema), values)).rows
    },
    /** The same until the database is there: for what a fault does to it while another lasts. */
    async persist(text) {
      for (let tries = 0; ; tries++) {
        try {
          return await world.query(text)
        } catch (error) {
          if (tries === persistMax) throw error
          await delay(100)
        }
      }
    },
    slots: [],
    of: (role) => world.slots.filter((slot) => slot.role.startsWith(role)),
    /** Written beside the history, so that a kept run can be judged again. */
    keepAnswers(answers) {
      if (isKept) writeFileSync(join(directory, 'answers.json'), JSON.stringify(answers))
    },
    async close() {
      await Promise.all(world.slots.map((slot) => slot.close()))
      await pool.query(`drop schema ${schema} cascade`).catch(() => undefined) // the server may be gone
      await pool.end()
      if (isKept) console.log(`history: ${path}`)
      else rmSync(directory, { recursive: true, force: true })
    },
  }
  world.record('clock', { wallMs: Date.now() })
  try {
    await populate(world, options)
    return world
  } catch (error) {
    await world.close()
    throw error
  }
}

/** Servers first, since subscriptions are made over HTTP; then whoever works for them. */
async function populate(world, { workers = 2 }) {
  const receiverPort = Number(new URL(world.receiverUrl).port)
  const first = [
    ...world.ports.map((port, n) => ({ role: `server${n}`, file: 'server.js', config: () => ({ port }) })),
    { role: 'receiver', file: 'receiver.js', config: () => ({ port: receiverPort }) },
  ]
  const open = async (slots) => {
    world.slots.push(...(await Promise.all(slots.map((slot) => openSlot(world, slot)))))
  }
  await open(first)
  for (const { name } of [...pulls, ...hooks]) {
    const { type, json } = await createSubscriber(world, wishFor(world, name))
    if (type !== 'ok') throw new Error(`Could not subscribe: ${JSON.stringify(json)}`)
  }
  await open(workersOf(world, workers))
  await learnSubscribers(world)
  const path = `/subscribers/${world.subscriberIds.get('work')}`
  await world.insist({ method: 'PATCH', path, body: patience })
}

const shownChars = 2_000
const bodyOf = ({ body, text }) => body ?? text?.slice(0, shownChars)

/** What is asked of the API to make a subscription. */
export function wishFor(world, name) {
  const pull = pulls.find((one) => one.name === name)
  if (pull !== undefined) return pull
  return { ...hooks.find((one) => one.name === name), url: `${world.receiverUrl}/${name}` }
}

/** Whether it was done, was not done, or may have been done, wholly or in part. */
function typeOf({ status, sent, json }) {
  if (status === 0) return sent ? 'info' : 'fail'
  if (status < 300) return 'ok'
  return status === 504 || status === 500 || json?.code === 'cancel_unfinished' ? 'info' : 'fail'
}

/** Where the operation is aimed at, if that is a server. */
function portFor({ aim, ports }, random) {
  const aimed = ports[ports.findIndex((_, n) => `server${n}` === aim)]
  return aimed ?? random.pick(ports)
}

function noteMeetings({ met }, { name, role, lasting }) {
  for (const one of lasting) if (one.role === undefined || one.role === role) met.add(`${name}, ${one.fault}`)
}

function workersOf(world, workers) {
  const { state, bouncer } = world
  const config = () => ({ handlers: state.handlers })
  const plan = [
    ...Array.from({ length: workers }, (_, n) => ({ role: `worker${n}`, file: 'worker.js', config })),
    { role: 'memory', file: 'worker.js', config: () => ({ handlers: [state.memory] }) },
    // Two: what one that is frozen has held, the other takes over.
    ...[0, 1].map((n) => ({ role: `puller${n}`, file: 'puller.js', config: () => ({ role: `puller${n}` }) })),
    ...[0, 1].map((n) => ({ role: `client${n}`, file: 'client.js', config: () => ({}) })),
  ]
  if (bouncer === undefined) return plan
  // Prepared statements do not go through it, and listening does not at all.
  const unprepared = () => ({ ...config(), hub: { ...world.shared().hub, prepared: false } })
  const { connection } = bouncer
  return [...plan, { role: 'worker.bouncer', file: 'worker.js', connection, config: unprepared }]
}

export async function createSubscriber(world, body) {
  const answer = await world.ask(world.random, { path: '/subscribers', body })
  if (answer.type === 'ok') world.subscriberIds.set(body.name, answer.json.id)
  return answer
}

export async function learnSubscribers(world) {
  const { json } = await world.insist({ method: 'GET', path: '/subscribers?limit=100' })
  for (const { name, id } of json?.subscribers ?? []) world.subscriberIds.set(name, id)
}

function counter() {
  let last = 0
  return () => ++last
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}
