// Does the engine agree with its model for hours? The simulation of the tests, with many more runs:
//
//   node chaos/simulation.js [runs] [seed]
//
// It prints the seed before it begins, and with a failure the shortest list of commands that shows it.
import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { fileURLToPath } from 'node:url'

const [runs = '2000', seed = String(randomInt(2 ** 31))] = process.argv.slice(2)
for (const [name, value] of [
  ['runs', runs],
  ['seed', seed],
]) {
  if (!/^[1-9]\d{0,9}$/.test(value))
    throw new RangeError(`Expected ${name} to be a positive integer, got ${value}.`)
}
console.log(`${runs} runs of each kind with seed ${seed}`)

const root = fileURLToPath(new URL('..', import.meta.url))
const vitest = fileURLToPath(new URL('../node_modules/vitest/vitest.mjs', import.meta.url))
const child = spawn(process.execPath, [vitest, 'run', 'test/simulation/simulation.long.test.ts'], {
  cwd: root,
  stdio: 'inherit',
  env: { ...process.env, POSTHORN_SIMULATION_RUNS: runs, POSTHORN_SIMULATION_SEED: seed },
})
child.on('exit', (code) => {
  process.exitCode = code ?? 1
})
