import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Reads the repository as text, for tests about how it is written. */

export const root = fileURLToPath(new URL('../..', import.meta.url))

export interface SourceFile {
  readonly path: string
  readonly text: string
}

export function page(name: string): SourceFile {
  return { path: name, text: readFileSync(join(root, name), 'utf8') }
}

export function filesBelow(folder: string, ending: string): SourceFile[] {
  const full = join(root, folder)
  if (!exists(full)) return []
  return readdirSync(full, { recursive: true, encoding: 'utf8' })
    .map((name) => join(full, name))
    .filter((path) => path.endsWith(ending) && !path.includes('node_modules') && statSync(path).isFile())
    .map((path) => page(relative(root, path)))
}

export function exists(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined
}

export function importsOf(path: string, text: string): string[] {
  return [...text.matchAll(/(?:from|import\()\s*'(\.[^']+)'/g)].map((match) =>
    join(path, '..', match[1] as string),
  )
}

/** The files that reach each other by imports, each ring sorted. */
export function ringsOf(files: readonly SourceFile[]): string[][] {
  const imports = new Map(files.map(({ path, text }) => [path, importsOf(path, text)]))
  const reached = new Map([...imports.keys()].map((path) => [path, reachableFrom(path, imports)]))
  const ringOf = (path: string) =>
    [...(reached.get(path) ?? [])].filter((other) => reached.get(other)?.has(path)).sort()
  const rings = [...reached.keys()].filter((path) => reached.get(path)?.has(path)).map(ringOf)
  return [...new Map(rings.map((ring) => [ring.join(), ring])).values()].sort()
}

function reachableFrom(start: string, imports: ReadonlyMap<string, readonly string[]>): Set<string> {
  const reached = new Set<string>()
  const waiting = [...(imports.get(start) ?? [])]
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (reached.has(path)) continue
    reached.add(path)
    waiting.push(...(imports.get(path) ?? []))
  }
  return reached
}

export function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, '')
}

export function lines(text: string): number {
  return text.trimEnd().split('\n').length
}

export interface FunctionLength {
  readonly name: string
  readonly lines: number
}

/** The functions and methods of a formatted file: each ends where a line begins with a brace as far in as its first line. */
export function functionsOf(text: string): FunctionLength[] {
  const all = text.split('\n')
  return all.flatMap((line, first) => {
    const [, indent = '', name, method] = functionStart.exec(line) ?? []
    if (name === undefined && (method === undefined || statements.has(method))) return []
    const last = all.findIndex(
      (later, at) => at > first && later.startsWith(`${indent}}`) && /^\s*\},?$/.test(later),
    )
    return [{ name: (name ?? method) as string, lines: last - first + 1 }]
  })
}

const functionStart =
  /^( *)(?:(?:export )?(?:async )?function\*? (\w+)|(?<=^ {2})(?:async |get |set |static |override )*(#?\w+)(?:<.*>)?\((?:.*\{)?$)/
const statements = new Set(['if', 'for', 'while', 'switch', 'catch'])

/** `defineStatement` calls whose text is not one literal: it was put together, and cannot be pasted into psql. */
export function patchedStatements(source: string): number {
  const text = withoutComments(source)
  const calls = text.match(/(?<!function )\bdefineStatement\(/g)?.length ?? 0
  const whole =
    text.match(/\bdefineStatement\(\s*'\w+',\s*(?:'[^']*'|`(?:[^`$]|\$(?!\{))*`),?\s*\)/g)?.length ?? 0
  return calls - whole
}

/** Exported functions, classes and constants. Types are left out: callers need not name the type of what they pass. */
export function exportsOf(text: string): string[] {
  const exported = /^export (?:async )?(?:function\*?|class|const) (\w+)/gm
  return [...text.matchAll(exported)].map((match) => match[1] as string)
}
