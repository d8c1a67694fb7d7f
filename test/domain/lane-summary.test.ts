import { expect, test } from 'vitest'
import { type LaneStanding, summarizeLane } from '../../src/domain/lane-summary.ts'

const now = new Date('2026-03-01T10:30:00Z')
const lane: LaneStanding = {
  ...{ status: 'retrying', headEventId: 812, waiting: 312, waitingIsLeast: false },
  ...{ since: new Date('2026-03-01T10:15:30Z'), nextAt: new Date('2026-03-01T10:42:10Z') },
}

test.each<[Partial<LaneStanding>, string]>([
  [{}, 'blocked 14 min by event 812, 312 waiting, next try 10:42'],
  [{ nextAt: null }, 'blocked 14 min by event 812, 312 waiting, next try now'],
  [{ nextAt: new Date('2026-03-01T10:29:00Z') }, 'blocked 14 min by event 812, 312 waiting, next try now'],
  [
    { nextAt: new Date('2026-03-02T00:05:00Z') },
    'blocked 14 min by event 812, 312 waiting, next try 2026-03-02 00:05',
  ],
  [{ status: 'blocked', nextAt: null }, 'blocked 14 min by event 812, 312 waiting, until somebody decides'],
  [
    { status: 'blocked', since: new Date('2026-02-20T10:30:00Z') },
    'blocked 9 d by event 812, 312 waiting, until somebody decides',
  ],
  [{ status: 'delivering', waitingIsLeast: true }, 'delivering event 812 for 14 min, at least 312 waiting'],
  [{ status: 'delivering', since: now }, 'delivering event 812 for 0 s, 312 waiting'],
  [{ status: 'waiting' }, 'event 812 is next, 312 waiting'],
])('%j is told as: %s', (change, summary) => {
  expect(summarizeLane({ ...lane, ...change }, now)).toBe(summary)
})
