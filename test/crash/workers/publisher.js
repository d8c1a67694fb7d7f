/** A process that publishes what its parent asks for, all at once, and answers what came of each. */
import { createPosthorn } from '../../../dist/index.js'

const config = JSON.parse(process.argv[2])
process.on('disconnect', () => process.exit(3))
const hub = await createPosthorn({
  database: config.database,
  schema: config.schema,
  log: false,
  upkeep: false,
})

process.on('message', async ({ events }) => {
  // In statements of their own: calls in one turn of the event loop would share one.
  const answers = await Promise.all(events.map((event) => hub.publishMany([event]).then(([one]) => one)))
  process.send(answers.map(({ id, replayed }) => ({ id, replayed })))
})
process.send('ready')
