import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import type { Option } from '../../src/options/setting.ts'
import { callerOptions, hubOptions, serverOptions } from '../../src/options/table.ts'

type Table = Readonly<Record<string, Option<unknown>>>

const hub: Table = hubOptions
const server: Table = serverOptions
const caller: Table = callerOptions

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

function shownDefault({ default: value, serverDefault, defaultText }: Option<unknown>): string {
  if (defaultText !== undefined) return defaultText
  return serverDefault === undefined
    ? `\`${value}\``
    : `\`${value}\`, of \`posthorn serve\` \`${serverDefault}\``
}

function meaningOf({ meaning, alsoInLibrary }: Option<unknown>): string {
  return alsoInLibrary === undefined ? meaning : `${meaning}; in the library also ${alsoInLibrary}`
}

/** The cells of a row in the reference, but for the name in the first one. */
function cellsOf(option: Option<unknown>): string[] {
  const link = option.seeAlso === undefined ? '' : `; see ${option.seeAlso}`
  return [shownDefault(option), meaningOf(option) + link]
}

/** The rows of the tables of a page, without their heads. */
function documentedRows(page: string): string[][][] {
  const tables = page.match(/(?:^\|.*\|\n)+/gm) ?? []
  return tables.map((table) =>
    table
      .trimEnd()
      .split('\n')
      .slice(2)
      .map((row) =>
        row
          .slice(1, -1)
          .split('|')
          .map((cell) => cell.trim()),
      ),
  )
}

test('docs/reference/options.md says what the table of options says', () => {
  const code = (name: string | null) => (name === null ? '' : `\`${name}\``)
  const byOption = Object.entries(hub).map(([name, option]) => [
    code(name),
    code(option.variable),
    ...cellsOf(option),
  ])
  const byVariable = (table: Table) =>
    Object.values(table).map((option) => [code(option.variable), ...cellsOf(option)])
  const documented = documentedRows(read('docs/reference/options.md'))
  expect(documented).toEqual([byOption, byVariable(server), byVariable(caller)])
})

test('the comments that editors show say what the table of options says', () => {
  const source = read('src/options/posthorn-options.ts')
  const members = source.matchAll(/\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s+readonly (\w+)\?:/g)
  const comments = [...members].map(([, comment = '', name]) => [
    name,
    comment
      .split('\n')
      .map((line) => line.trim().replace(/^\* ?/, ''))
      .join(' ')
      .trim(),
  ])
  const expected = Object.entries(hub).map(([name, option]) => {
    const meaning = meaningOf(option)
    const variable = option.variable === null ? '' : ` (${option.variable})`
    const sentence = `${meaning.charAt(0).toUpperCase()}${meaning.slice(1)}${variable}.`
    return [name, `${sentence} Default: ${shownDefault(option)}.`]
  })
  expect(comments).toEqual(expected)
})

test('no variable stands for two options', () => {
  const all = [hub, server, caller].flatMap((table) => Object.values(table))
  const variables = all.flatMap(({ variable }) => (variable === null ? [] : [variable]))
  expect(variables).toEqual([...new Set(variables)])
})

test('only what code alone can say has no variable', () => {
  const without = Object.keys(hub).filter((name) => hub[name]?.variable === null)
  // A catalogue is code; the roles of a server say whether it runs upkeep and sends webhooks.
  expect(without).toEqual(['events', 'upkeep', 'dispatcher'])
})
