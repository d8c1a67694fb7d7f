// Does any request, however odd, get an answer that the OpenAPI document does not have? The fuzz of the tests, with
// more requests:
//
//   node chaos/fuzz-api.js [requests] [seed]
//
// It prints the seed before it begins, then how many requests each route had and how they were answered; and with a
// failure what was sent and what came back.
import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { fileURLToPath } from 'node:url'

const [requests = '20000', seed = String(randomInt(2 ** 31))] = process.argv.slice(2)
for (const [name, value] of [
  ['requests', requests],
  ['seed', seed],
]) {
  if (!/^[1-9]\d{0,9}$/.test(value))
    throw new RangeError(`Expected ${name} to be a positive integer, got ${value}.`)
}
console.log(`${requests} requests with seed ${seed}`)

const root = fileURLToPath(new URL('..', import.meta.url))
const vitest = fileURLToPath(new URL('../node_modules/vitest/vitest.mjs', import.meta.url))
const child = spawn(process.execPath, [vitest, 'run', 'test/http/fuzz.long.test.ts'], {
  cwd: root,
  stdio: 'inherit',
  env: { ...process.env, POSTHORN_FUZZ_REQUESTS: requests, POSTHORN_FUZZ_SEED: seed },
})
child.on('exit', (code) => {
  process.exitCode = code ?? 1
})
