// Events with one ordering key run strictly one after the other, also while one of them is being retried.
import { createPosthorn } from 'posthorn'

const hub = await createPosthorn()
const log = { alice: [], bob: [] }
let declined = false

hub.on('account.*', { name: 'ledger', concurrency: 10, retry: { baseMs: 50 } }, (event) => {
  if (event.payload === 'withdraw 50' && !declined) {
    declined = true
    throw new Error('the bank did not answer') // alice waits; bob does not
  }
  log[event.orderingKey].push(event.payload)
})
await hub.start()
await hub.publishMany([
  { type: 'account.deposit', orderingKey: 'alice', payload: 'deposit 100' },
  { type: 'account.withdraw', orderingKey: 'alice', payload: 'withdraw 50' },
  { type: 'account.deposit', orderingKey: 'bob', payload: 'deposit 10' },
  { type: 'account.close', orderingKey: 'alice', payload: 'close' },
])

while (log.alice.length < 3 || log.bob.length < 1) await new Promise((resolve) => setTimeout(resolve, 10))
console.log(`alice: ${log.alice.join(', ')}`)
console.log(`bob: ${log.bob.join(', ')}`)
await hub.unsubscribe('ledger')
await hub.stop()
