/** Pairs of operation and fault that cannot meet, by the kind of process that does the operation, and why. */
export const leftOut = [
  {
    ...{ places: ['worker', 'server', 'puller'], faults: ['freeze.owner'] },
    reason: 'only the owner of a memory queue is frozen until another has its queue',
  },
  {
    ...{ places: ['server', 'puller', 'memory'], faults: ['bouncer.restart'] },
    reason: 'one worker goes through PgBouncer, and no other process does',
  },
]

/** @returns the reason, or undefined if they can meet */
export function whyLeftOut({ place, fault }) {
  return leftOut.find(({ places, faults }) => places.includes(place) && faults.includes(fault))?.reason
}
