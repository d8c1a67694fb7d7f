/** At which point of a period this process looks. Other processes draw other points, so that they do not all look at once. */
const phaseMs = Math.random() * 3_600_000

/**
 * How long until the next beat of a period. All loops of a process share their beats, so that they can look together: a loop with a
 * period of two seconds has every second beat of a loop with one second. A beat that is almost now is skipped.
 */
export function untilBeat(everyMs: number): number {
  const untilNext = everyMs - ((performance.now() + phaseMs) % everyMs)
  return untilNext < everyMs / 10 ? untilNext + everyMs : untilNext
}
