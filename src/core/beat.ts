/** Where in every period this process looks: another one looks at another moment. */
const phaseMs = Math.random() * 3_600_000

/**
 * How long until the next beat of a period. All loops of a process have the same beat, one of two seconds every other
 * beat of one of a second, so that they can look together; a beat that is almost now is left out.
 */
export function untilBeat(everyMs: number): number {
  const untilNext = everyMs - ((performance.now() + phaseMs) % everyMs)
  return untilNext < everyMs / 10 ? untilNext + everyMs : untilNext
}
