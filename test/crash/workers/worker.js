/** A process with handlers, that records every begin and end, until it is stopped or killed. */
import { createPosthorn } from '../../../dist/index.js'
import { openRecorder } from '../support/recorder.js'
import { behaviours } from './behaviours.js'

const config = JSON.parse(process.argv[2])
const record = openRecorder(config.record)
process.on('disconnect', () => process.exit(3))

const hub = await createPosthorn({
  database: { ...config.database, application_name: config.workerId },
  schema: config.schema,
  workerId: config.workerId,
  log: process.env.POSTHORN_CRASH_LOG ?? false,
  pollMs: 20,
  ...config.hub,
})
for (const { pattern, options, behaviour } of config.handlers) {
  hub.on(pattern, options, behaviours[behaviour.kind]({ behaviour, config, record, name: options.name }))
}
hub.events.on('settled', ({ subscription, eventId, settlement }) => {
  record('settled', { subscription, id: eventId, settlement })
})
hub.events.on('lost', ({ subscription, eventId, why }) => record('lost', { subscription, id: eventId, why }))

process.once('SIGTERM', async () => {
  await hub.stop(config.stop)
  record('stopped')
  // Nothing but the channel to the parent should keep us: the process must end by itself.
  process.removeAllListeners('disconnect')
  process.disconnect()
})
await hub.start()
record('started', { worker: config.workerId })
process.send('ready')
