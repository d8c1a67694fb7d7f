import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { expect, test } from 'vitest'

/** Of a line such as `--   lock 7001: 05_admit.sql, move-memory.ts    what it is for`. */
const listedLock = /^-- +lock +(\d+): ([^\s,]+(?:, [^\s,]+)*)/gm
const usedLock = /advisory\w*\(\s*hashtextextended\([^)]*, (\d+)\)/g

function readAll(folder: string): { name: string; text: string }[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(ts|sql)$/.test(name))
    .map((name) => ({ name: basename(name), text: readFileSync(join(folder, name), 'utf8') }))
}

test('every advisory lock has a number of its own, and is in the list at the top of the schema', () => {
  const schema = readFileSync('migrations/0001_baseline/01_engine.sql', 'utf8')
  const listed = [...schema.matchAll(listedLock)].flatMap(([, lock, files]) =>
    (files as string).split(', ').map((file) => `${lock} ${file}`),
  )
  const used = [...readAll('src'), ...readAll('migrations')].flatMap(({ name, text }) =>
    [...text.matchAll(usedLock)].map(([, lock]) => `${lock} ${name}`),
  )
  expect([...new Set(used)].sort()).toEqual(listed.sort())
})
