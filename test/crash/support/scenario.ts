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

/**
 * Runs a scenario on a database of its own. Scenarios are plain JavaScript: the chaos scripts run the same ones
 * for hours, without a test runner.
 */
export async function runScenario<More extends object>(
  name: string,
  options: Omit<ScenarioOptions, 'connection'> & More,
): Promise<ScenarioReport> {
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
