/** What every script here does: its scenario on a private PostgreSQL, with `--seed` and `--secs`. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startEmbedded } from '../dist/db/embedded.js'

/**
 * Prints the counts and every violation; the exit code says whether there was one.
 * @param {(options: object) => Promise<{ counts: Record<string, number>, violations: readonly string[] }>} scenario
 * @param {string[]} vital counts that must not be zero, or nothing was shown
 * @param {{ secs?: number }} [usual] how long it runs unless it is told
 */
export async function runChaos(scenario, vital, { secs: usualSecs = 60 } = {}) {
  const { seed, secs } = readArguments(usualSecs)
  const directory = mkdtempSync(join(tmpdir(), 'posthorn-chaos-'))
  const server = await startEmbedded({ dataDirectory: join(directory, 'data') })
  try {
    const { counts, violations } = await scenario({ connection: server.connection, seed, secs })
    console.log(`seed ${seed}, ${secs} s`)
    for (const [what, count] of Object.entries(counts)) console.log(`  ${what}: ${count}`)
    for (const violation of violations) console.log(`VIOLATION ${violation}`)
    const missing = vital.filter((what) => !(counts[what] > 0))
    for (const what of missing) console.log(`VACUOUS ${what} is zero`)
    if (violations.length > 0 || missing.length > 0) process.exitCode = 1
    else console.log('held')
  } finally {
    await server.stop()
    rmSync(directory, { recursive: true, force: true })
  }
}

function readArguments(usualSecs) {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string', default: '1' },
      secs: { type: 'string', default: String(usualSecs) },
    },
  })
  const seed = Number(values.seed)
  const secs = Number(values.secs)
  if (!Number.isInteger(seed)) throw new Error(`Expected --seed to be a whole number, got ${values.seed}.`)
  if (!(secs > 0)) throw new Error(`Expected --secs to be a number above 0, got ${values.secs}.`)
  return { seed, secs }
}
