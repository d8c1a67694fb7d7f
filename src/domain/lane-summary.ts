export const laneStatuses = ['blocked', 'retrying', 'delivering', 'waiting'] as const

/**
 * `blocked`: the lane stopped at a buried head until an operator decides. `retrying`: its head waits for another attempt.
 * `delivering`: a worker has its head. `waiting`: its head waits for the first attempt.
 */
export type LaneStatus = (typeof laneStatuses)[number]

export interface LaneStanding {
  readonly status: LaneStatus
  readonly headEventId: number
  /** Deliveries behind the head. */
  readonly waiting: number
  /** True of a deep lane, of which not all deliveries are counted. */
  readonly waitingIsLeast: boolean
  /** When it came into this status. */
  readonly since: Date | null
  readonly nextAt: Date | null
}

/** "blocked 14 min by event 812, 312 waiting, next try 10:42"; times are UTC. */
export function summarizeLane(lane: LaneStanding, now: Date): string {
  const waiting = `${lane.waitingIsLeast ? 'at least ' : ''}${lane.waiting} waiting`
  const lasted = lane.since === null ? '' : ` ${duration(now.getTime() - lane.since.getTime())}`
  switch (lane.status) {
    case 'blocked':
      return `blocked${lasted} by event ${lane.headEventId}, ${waiting}, until somebody decides`
    case 'retrying':
      return `blocked${lasted} by event ${lane.headEventId}, ${waiting}, ${nextTry(lane.nextAt, now)}`
    case 'delivering':
      return `delivering event ${lane.headEventId}${lasted && ` for${lasted}`}, ${waiting}`
    case 'waiting':
      return `event ${lane.headEventId} is next, ${waiting}`
  }
}

function nextTry(at: Date | null, now: Date): string {
  if (at === null || at <= now) return 'next try now'
  const [day, time] = at.toISOString().split('T') as [string, string]
  const isToday = now.toISOString().startsWith(day)
  return `next try ${isToday ? '' : `${day} `}${time.slice(0, 5)}`
}

const units = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
] as const

function duration(ms: number): string {
  for (const [unit, size] of units) if (ms >= size) return `${Math.floor(ms / size)} ${unit}`
  return `${Math.max(0, Math.floor(ms / 1000))} s`
}
