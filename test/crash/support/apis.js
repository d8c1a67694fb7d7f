import { once } from 'node:events'
import { createServer } from 'node:net'

const answerMsMax = 20_000
const sparesMax = 2

/**
 * API processes, each on a port of its own, that are killed and replaced; and calls to them. A new process takes a
 * second to load, so that some are always kept ready: what is killed is back at once.
 *
 * @typedef {{ status: number, headers?: Headers, json?: any, sent: boolean }} Answer
 *   `status` 0: none came. `sent` false: the call cannot have arrived.
 */
export async function openApis(world, count) {
  const spares = Array.from({ length: count + sparesMax }, () => world.startProcess('api.js', {}))
  const slots = []
  for (let n = 0; n < count; n++)
    slots.push({ port: await freePort(), process: undefined, inFlight: new Map() })
  const fill = async (slot) => {
    const process = await spares.shift()
    const listening = process.answer()
    process.send({ port: slot.port })
    await listening
    slot.process = process
  }
  await Promise.all(slots.map(fill))
  let calls = 0
  return {
    /** @returns {Promise<Answer>} from one of the processes, dead or alive */
    async call(random, { method = 'POST', path, body, headers = {} }) {
      const slot = random.pick(slots)
      const no = ++calls
      slot.inFlight.set(no, path.split('?')[0].split('/').at(-1))
      try {
        return await send(`http://127.0.0.1:${slot.port}${path}`, { method, body, headers })
      } finally {
        slot.inFlight.delete(no)
      }
    },
    /** Kills one, when `ready` has been waited for, and replaces it. Says what it was being asked. */
    async killOne(random, ready) {
      const slot = random.pick(slots)
      await ready(slot.process.name)
      const inFlight = [...slot.inFlight.values()]
      await slot.process.kill()
      spares.push(world.startProcess('api.js', {}))
      await fill(slot)
      return inFlight
    },
    /** @returns how each of them ended */
    async stop() {
      const idle = await Promise.all(spares)
      return Promise.all([...idle, ...slots.map((slot) => slot.process)].map((process) => process.stop()))
    },
  }
}

async function send(url, { method, body, headers }) {
  try {
    const response = await fetch(url, {
      method,
      headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(answerMsMax),
    })
    const text = await response.text()
    return {
      status: response.status,
      headers: response.headers,
      json: text === '' ? undefined : JSON.parse(text),
      sent: true,
    }
  } catch (error) {
    return { status: 0, sent: error.cause?.code !== 'ECONNREFUSED' }
  }
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}
