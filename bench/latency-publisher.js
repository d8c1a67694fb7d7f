/** The other process of B4: publishes one event whenever its parent says so. */
import { graphileWorker, posthorn } from './contenders.js'
import { givenServers } from './server.js'
import { monotonicMs } from './workload.js'

const [name, schema] = process.argv.slice(2)
const contender = [posthorn, graphileWorker].find((each) => each.name === name)
const publisher = await contender.openRemote(givenServers(), schema)

process.on('message', async ({ n }) => {
  await publisher.publish({ key: null, payload: { n, at: monotonicMs() } })
  process.send('published')
})
process.on('disconnect', () => publisher.close())
process.send('ready')
