/** One of several processes that drain together: handles events of a schema from 'start' until 'stop', and tells its CPU time. */
import { posthorn } from './posthorn.js'
import { givenServers } from './server.js'

const [schema] = process.argv.slice(2)
const worker = await posthorn.openWorker(givenServers(), schema)
let before = process.cpuUsage()
process.on('message', async (message) => {
  if (message === 'start') {
    before = process.cpuUsage()
    await worker.start()
  } else {
    const { user, system } = process.cpuUsage(before)
    await worker.stop()
    process.send({ cpuUs: user + system, handled: worker.handled })
    process.disconnect()
  }
})
process.send('ready')
