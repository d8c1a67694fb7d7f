import { testAgreement } from './agreeing.ts'

// The first runs of those in simulation.long.test.ts.
testAgreement([{ seed: 1, runs: 2 }])
