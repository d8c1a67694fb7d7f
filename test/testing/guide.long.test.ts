import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { urlOf } from '../cli/process.ts'
import { createTestDatabase } from '../support/database.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const guide = join(root, 'docs/guides/testing.md')

/** Inside the package, so that it can import it by name. */
function writeProgram(text: string): string {
  const directory = mkdtempSync(join(root, 'node_modules/.posthorn-testing-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  const path = join(directory, 'program.mjs')
  writeFileSync(path, text.replaceAll("'posthorn/testing'", `'${join(root, 'dist/testing/index.js')}'`))
  return path
}

function start(program: string, env: NodeJS.ProcessEnv = {}): { child: ChildProcess; output: () => string } {
  const child = spawn(process.execPath, [program], { env: { ...process.env, ...env } })
  onTestFinished(() => void child.kill('SIGKILL'))
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (bytes: Buffer) => {
      output += bytes
    })
  }
  return { child, output: () => output }
}

test('the test of the guide passes again in a schema where it has passed before', async () => {
  const [, text] = /```js\n(.*?)```/s.exec(readFileSync(guide, 'utf8')) ?? []
  const database = await createTestDatabase('guide')
  onTestFinished(() => database.drop())
  const program = writeProgram(text as string)
  for (let run = 1; run <= 3; run++) {
    const { child, output } = start(program, { TEST_DATABASE_URL: urlOf(database.connection) })
    const [code] = await once(child, 'close')
    expect(code, `run ${run}: ${output()}`).toBe(0)
  }
})

test.each([
  ['throws', "throw new Error('The test failed')"],
  ['is killed', "process.kill(process.pid, 'SIGKILL')"],
])('a test that %s leaves no embedded server behind', async (_, end) => {
  const dataDirectory = mkdtempSync(join(tmpdir(), 'posthorn-testing-'))
  onTestFinished(() => rmSync(dataDirectory, { recursive: true, force: true }))
  const program = writeProgram(`import { testPosthorn } from 'posthorn/testing'
import { readFileSync } from 'node:fs'
const { hub } = await testPosthorn({ dataDirectory: ${JSON.stringify(dataDirectory)} })
hub.on('t', { name: 'n' }, () => undefined)
await hub.start()
const [pid] = readFileSync(${JSON.stringify(join(dataDirectory, 'postgres/postmaster.pid'))}, 'utf8').split('\\n')
process.stdout.write('server ' + pid + ' ')
${end}`)
  const { child, output } = start(program)
  await once(child, 'close')
  const pid = Number(/server (\d+)/.exec(output())?.[1])
  expect(pid, output()).toBeGreaterThan(0)
  onTestFinished(() => {
    if (existsSync(`/proc/${pid}`)) process.kill(pid, 'SIGINT')
  })
  for (let waited = 0; existsSync(`/proc/${pid}`) && waited < 600; waited++) await delay(100)
  expect(existsSync(`/proc/${pid}`)).toBe(false)
})
