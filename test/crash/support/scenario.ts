import { createTestDatabase } from '../../support/database.ts'
import type { ServerAddress } from '../../support/server.ts'

export interface ScenarioOptions {
  readonly connection: ServerAddress
  /** The same seed makes the same choices; what the processes make of them is up to the machine. */
  readonly seed: number
  /** How long to do harm. What follows until everything is settled comes on top. */
  readonly secs: number
}

export interface ScenarioReport {
  readonly counts: Record<string, number>
  /** What should not have happened. */
  readonly violations: readonly string[]
}

/** Many processes on a machine that others use as well: whoever is slow is not yet wrong. */
export const patience = { timeout: 600_000 }

export type Scenario = (options: ScenarioOptions) => Promise<ScenarioReport>

export interface ScenarioRequest extends Omit<ScenarioOptions, 'connection'> {
  /** Counts that must be above zero, else the run has shown nothing. Chance decides them: a run without one is repeated. */
  readonly vital?: readonly string[]
}

/** With the seeds that follow. A violation in any of them counts. */
const runsMax = 5

/**
 * Runs a scenario on a database of its own. Scenarios are plain JavaScript: the chaos scripts run the same ones
 * for hours, without a test runner.
 */
export async function runScenario<More extends object>(
  name: string,
  { vital = [], ...options }: ScenarioRequest & More,
): Promise<ScenarioReport> {
  for (let run = 0; ; run++) {
    const report = await runOnce(name, { ...options, seed: options.seed + run })
    const missing = vital.filter((what) => !((report.counts[what] ?? 0) > 0))
    if (report.violations.length > 0 || missing.length === 0) return report
    if (run + 1 === runsMax) throw new Error(`${name}: ${missing} stayed zero in ${runsMax} runs`)
  }
}

async function runOnce(name: string, options: Omit<ScenarioOptions, 'connection'>): Promise<ScenarioReport> {
  const { run } = (await import(`../scenarios/${name}.js`)) as { run: Scenario }
  const database = await createTestDatabase('crash')
  try {
    const report = await run({ connection: database.connection, ...options })
    const counts = Object.entries(report.counts).map(([what, count]) => `${what} ${count}`)
    process.stdout.write(`crash: ${name} (seed ${options.seed}): ${counts.join(', ')}\n`)
    return report
  } finally {
    await database.drop()
  }
}
