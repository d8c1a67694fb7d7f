/** A process that serves the API, sends webhooks and does upkeep, on a port that stays the same when it is replaced. */
import { subscribe } from 'node:diagnostics_channel'
import { startApi } from '../../../dist/cli/api.js'
import { openPosthorn } from '../../../dist/create.js'
import { KeyRing } from '../../../dist/keys/key-ring.js'
import { openRecorder } from '../../crash/support/recorder.js'
import { plantBug } from '../bugs.js'
import { served } from '../topology.js'
import { databaseOf } from './database.js'
import { watchSleepers } from './sleepers.js'
import { watchStalls } from './stalls.js'

const config = JSON.parse(process.argv[2])
const record = openRecorder(config.record)
process.on('disconnect', () => process.exit(3))
watchStalls(record)
// Each webhook says which process sent it: a receiver cannot know.
subscribe('undici:request:create', ({ request }) => request.addHeader('x-chaos-pid', String(process.pid)))

const { posthorn: hub, db } = await openPosthorn({
  database: databaseOf(config),
  schema: config.schema,
  workerId: config.workerId,
  log: process.env.POSTHORN_CHAOS_LOG ?? false,
  pollMs: 20,
  idlePollMs: 300,
  poolMax: 10,
  migrate: false,
  ...config.hub,
})
watchSleepers(db, record)
plantBug(config.bug, db)
hub.events.on('settled', ({ subscription: s, eventId: id, settlement }) => {
  if (served.includes(s)) record('served', { s, id, settlement })
})
const keys = new KeyRing({ db, adminKey: undefined })
await hub.start()
const api = await startApi({
  ...{ hub, keys, address: { host: '127.0.0.1', port: config.port } },
  log: withErrors(hub.log, record),
})

process.once('SIGTERM', stop)
// A second signal during a slow stop must not end the process by its default action.
process.on('SIGTERM', () => undefined)
process.send('ready')

/** What a 500 was about is only in the log. */
function withErrors(log, tell) {
  const error = (details, message) => {
    const { err, ...rest } = details ?? {}
    if (message === 'Request failed')
      tell('request failed', { ...rest, error: String(err?.stack ?? err).slice(0, 2_000), code: err?.code })
    log.error(details, message)
  }
  return new Proxy(log, { get: (target, name) => (name === 'error' ? error : target[name]) })
}

async function stop() {
  await api.stop()
  await keys.stop()
  await hub.stop({ graceMs: 2_000 })
  record('stopped')
  process.exit(0)
}
