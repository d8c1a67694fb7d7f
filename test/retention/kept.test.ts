import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { readConfig } from '../../src/config.ts'
import { whatIsKept } from '../../src/retention/kept.ts'

const hourMs = 60 * 60 * 1000

function inWords(ms: number): string {
  const hours = ms / hourMs
  return hours % 24 === 0 ? `${hours / 24} days` : `${hours} hours`
}

test('the guide says for every table how long its rows are kept', () => {
  const guide = readFileSync(new URL('../../docs/guides/keep-or-delete.md', import.meta.url), 'utf8')
  const rows = guide.matchAll(/^\| `(\w+)` +\|[^|]*\| (\d+ (?:days|hours))/gm)
  const documented = [...rows].map(([, table, time]) => [table, time])
  const kept = whatIsKept(readConfig({}, {}), []).map(({ table, keepMs }) => [table, inWords(keepMs)])
  expect(documented).toEqual(kept)
})

test('a type that says how long it keeps its events has a walk of its own, before the walk over all others', () => {
  const types = [
    { type: 'long', keepMs: 30 * 24 * hourMs, maxAgeMs: null, requireRoute: null },
    { type: 'usual', keepMs: null, maxAgeMs: null, requireRoute: null },
  ]
  const walks = whatIsKept(readConfig({}, {}), types).flatMap(({ walk }) => walk ?? [])
  expect(walks).toEqual(['type:long', 'events', 'lanes'])
})
