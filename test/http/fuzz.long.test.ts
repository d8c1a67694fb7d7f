import { testAnswers } from './fuzz/answers.ts'

/**
 *   POSTHORN_FUZZ_REQUESTS   how many instead of 2,000; chaos/fuzz-api.js does ten times as many
 *   POSTHORN_FUZZ_SEED       a seed that was printed, to see its failure again
 */
const requests = Number(process.env.POSTHORN_FUZZ_REQUESTS || 2_000)
const seed = Number(process.env.POSTHORN_FUZZ_SEED || 1)

// There was work, it was leased, and tokens were right, old and wrong.
const vital = {
  ...{ 'publishEvent 201': 11, 'publishEvent 202': 11, 'publishEvents 201': 11, 'subscribe 200': 11 },
  ...{ 'completeEvent 200': 1, 'completeEvent 409': 1, 'failEvent 200': 1, 'heartbeat 200': 1 },
}

testAnswers({ requests, seed, vital, comparedMin: 101 })
