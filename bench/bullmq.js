import { createRequire } from 'node:module'
import { Queue, Worker } from 'bullmq'
import { inBatches, waitUntil, within } from './workload.js'

const { version } = createRequire(import.meta.url)('bullmq/package.json')
const concurrency = 200
// Finished jobs are removed: keeping them costs Redis more.
const defaultJobOptions = { removeOnComplete: true, removeOnFail: true }
let queueCount = 0

export const bullmq = {
  name: 'bullmq',
  version,
  settings: {
    drain:
      `one Worker, concurrency ${concurrency} (https://docs.bullmq.io/guide/workers/concurrency), removeOnComplete; ` +
      'Redis with appendonly yes, appendfsync everysec (https://docs.bullmq.io/guide/going-to-production)',
    publish: 'addBulk in batches (https://docs.bullmq.io/guide/queues/adding-bulks)',
  },

  /** From the Worker's creation until every job has run and none is waiting or active. */
  async drain(servers, { events, record, limitMs }) {
    const { queue, connection, name } = open(servers)
    for (const batch of inBatches(events, 1000)) await queue.addBulk(batch.map(toJob))

    const begin = performance.now()
    const worker = new Worker(name, async (job) => record.ran(job.data.n), { connection, concurrency })
    worker.on('error', (error) => {
      throw error
    })
    await within(limitMs, 'bullmq', record.done)
    await waitUntil(async () => (await queue.getJobCountByTypes('waiting', 'active')) === 0, {
      what: 'an empty queue',
    })
    const seconds = (performance.now() - begin) / 1000
    await worker.close()
    await close(queue)
    return seconds
  },

  async openPublisher(servers) {
    const { queue } = open(servers)
    return {
      publishMany: (events) => queue.addBulk(events.map(toJob)),
      publish: (event) => queue.add('bench', event.payload),
      stored: () => queue.getJobCountByTypes('waiting'),
      close: () => close(queue),
    }
  },
}

function open(servers) {
  const name = `bench-${process.pid}-${++queueCount}`
  const connection = { ...servers.redis, maxRetriesPerRequest: null }
  const queue = new Queue(name, { connection, defaultJobOptions })
  return { queue, connection, name }
}

function toJob({ payload }) {
  return { name: 'bench', data: payload }
}

async function close(queue) {
  await queue.obliterate({ force: true })
  await queue.close()
}
