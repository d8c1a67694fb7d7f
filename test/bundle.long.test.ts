import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { rolldown } from 'rolldown'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from './support/database.ts'

const run = promisify(execFile)
const built = fileURLToPath(new URL('../dist/', import.meta.url))

let folder: string
let database: TestDatabase

beforeEach(async () => {
  // Far from any node_modules and from our own files: a bundle has nothing but itself.
  folder = await mkdtemp(join(tmpdir(), 'posthorn-bundle-'))
  database = await createTestDatabase('bundle')
})

afterEach(async () => {
  await database.drop()
  await rm(folder, { recursive: true })
})

const app = `
import { createPosthorn } from ${JSON.stringify(join(built, 'index.js'))}
async function main() {
  const hub = await createPosthorn({ database: JSON.parse(process.env.CONNECTION), log: false })
  const { id } = await hub.publish({ type: 'order.created', payload: 1 })
  await hub.stop()
  console.log('published', id)
}
main()
`

const guarding = `
import { guardServer } from ${JSON.stringify(join(built, 'testing/guard-server.js'))}
guardServer('/data')
console.log('guarded')
`

const formats = [
  ['ES modules', 'esm', 'mjs'],
  ['CommonJS', 'cjs', 'cjs'],
] as const

test.each(formats)('an application bundled to %s finds the migrations', async (_, format, ending) => {
  const file = await bundleTo(app, format, ending)
  const env = { ...process.env, CONNECTION: JSON.stringify(database.connection) }
  const { stdout } = await run(process.execPath, [file], { cwd: folder, env, timeout: 120_000 })
  expect(stdout).toBe('published 1\n')
})

test.each(formats)(
  'posthorn/testing bundled to %s works, and says that it guards nothing',
  async (_, ...to) => {
    const file = await bundleTo(guarding, ...to)
    // What the application has beside the bundle is not ours to run.
    await writeFile(join(folder, 'guard.js'), 'throw new Error()')
    const { stdout, stderr } = await run(process.execPath, [file], { cwd: folder, timeout: 120_000 })
    expect(stdout).toBe('guarded\n')
    expect(stderr).toContain('The embedded server in /data has no guard')
  },
)

async function bundleTo(program: string, format: 'esm' | 'cjs', ending: string): Promise<string> {
  await writeFile(join(folder, 'app.js'), program)
  const bundle = await rolldown({
    input: join(folder, 'app.js'),
    platform: 'node',
    external: ['pg-native'],
    logLevel: 'silent',
    // Some bundlers have nothing to put in its place.
    ...(format === 'cjs' && { transform: { define: { 'import.meta.url': 'undefined' } } }),
  })
  const file = join(folder, `bundle.${ending}`)
  await bundle.write({ file, format, codeSplitting: false })
  await bundle.close()
  return file
}
