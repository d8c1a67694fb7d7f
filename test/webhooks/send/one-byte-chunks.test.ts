import { expect, test } from 'vitest'
import type { Connection } from '../../../src/webhooks/send/connection.ts'
import type { Deadline } from '../../../src/webhooks/send/deadline.ts'
import { RoundTrip } from '../../../src/webhooks/send/round-trip.ts'

const silent = {
  dispatch: () => undefined,
  beginsAnswer: () => undefined,
  endsAnswer: () => undefined,
} as unknown as Connection
const endless = { failure: null, watch: () => undefined } as unknown as Deadline
const chunk = Buffer.from('a')
const exchangesOpen = 100
const bodyBytes = 16_384
const heapGrowthMax = 40_000_000

test('answers that come in chunks of one byte cost about as much memory as they have bytes', async () => {
  const before = process.memoryUsage().heapUsed
  const open = Array.from({ length: exchangesOpen }, () => {
    const exchange = new RoundTrip(silent, endless)
    const answered = exchange.run({ path: '/', method: 'POST' })
    exchange.onResponseStart(null, 200, {})
    for (let at = 0; at < bodyBytes; at++) exchange.onResponseData(null, chunk)
    return { exchange, answered }
  })
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(heapGrowthMax)
  for (const { exchange } of open) exchange.onResponseEnd()
  for (const { answered } of open) expect((await answered).body).toHaveLength(bodyBytes)
})
