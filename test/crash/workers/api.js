/** A process that serves the API, from when its parent names a port until it is stopped or killed. */
import { startApi } from '../../../dist/cli/api.js'
import { openPosthorn } from '../../../dist/create.js'
import { KeyRing } from '../../../dist/keys/key-ring.js'

const config = JSON.parse(process.argv[2])
process.on('disconnect', () => process.exit(3))

const { posthorn: hub, db } = await openPosthorn({
  database: { ...config.database, application_name: config.workerId },
  schema: config.schema,
  workerId: config.workerId,
  log: process.env.POSTHORN_CRASH_LOG ?? false,
})
const keys = new KeyRing({ db, adminKey: undefined })
await hub.start()
let api
process.once('message', async ({ port }) => {
  api = await startApi({ hub, keys, log: hub.log, address: { host: '127.0.0.1', port } })
  process.send('listening')
})

process.once('SIGTERM', async () => {
  await api?.stop()
  await keys.stop()
  await hub.stop()
  // Nothing but the channel to the parent should keep us: the process must end by itself.
  process.removeAllListeners('disconnect')
  process.disconnect()
})
process.send('ready')
