/**
 * The smallest set of operations, themes and faults that still breaks the same rule, as far as it can be found in time.
 * Processes decide when things meet, so that a smaller set may need more than one try; what was found stays found.
 */

/**
 * @param {(names: { only: string[], faults: string }) => Promise<{ violations: { rule: string }[], history: object[] }>} run
 * @param {{ rule: string, only: string[], untilMs: number, now?: () => number }} options
 */
export async function shrink(
  run,
  { rule, only, untilMs, now = () => performance.now(), log = () => undefined },
) {
  let smallest = { only, faults: 'all' }
  let report
  const breaks = async (candidate) => {
    if (now() > untilMs) return false
    const tried = await run(candidate)
    const isBroken = tried.violations.some((violation) => violation.rule === rule)
    log(`${isBroken ? 'still broken' : 'held'} with ${candidate.only.join(', ')}; faults ${candidate.faults}`)
    if (!isBroken) return false
    smallest = candidate
    report = tried
    return true
  }
  await breaks({ ...smallest, faults: 'none' })
  for (let size = Math.ceil(smallest.only.length / 2); size >= 1; size = size > 1 ? Math.ceil(size / 2) : 0) {
    for (let from = 0; from < smallest.only.length && smallest.only.length > 1; ) {
      const rest = smallest.only.toSpliced(from, size)
      if (rest.length === 0 || !(await breaks({ ...smallest, only: rest }))) from += size
    }
    if (now() > untilMs) break
  }
  return { ...smallest, report }
}
