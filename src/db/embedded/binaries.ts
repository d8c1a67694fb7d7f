import { realpath } from 'node:fs/promises'
import { delimiter, dirname, isAbsolute, join, resolve } from 'node:path'
import { PosthornError } from '../../errors.ts'
import { type Account, chooseAccount } from './account.ts'
import { bundlePackage, copiedPrograms, findBundle, linkedPrograms } from './bundle.ts'
import { unlessMissing } from './files.ts'
import { runProgram } from './program.ts'

export type BinariesKind = 'bundled' | 'path'

/** A `postgres` with its `initdb`, known to run here for the account. */
export interface Binaries {
  readonly kind: BinariesKind
  readonly postgres: string
  readonly initdb: string
  /** As the program reports it: `18.4`. */
  readonly version: string
  readonly major: number
}

interface BinariesRequest {
  readonly kind?: BinariesKind | undefined
  readonly account: Account
  /** The major version of the cluster, if there is one: only a server of that version can run it. */
  readonly major?: number | undefined
  readonly directory: string
}

const majorMin = 14

/** The server that would make the database of a data directory. Makes nothing. */
export async function findMaker(dataDirectory: string): Promise<Binaries> {
  const directory = resolve(dataDirectory)
  return findBinaries({ account: await chooseAccount(join(directory, 'postgres')), directory })
}

/** Finds the bundled server if it runs here, otherwise one on PATH; for an existing cluster one of its version. */
export async function findBinaries(request: BinariesRequest): Promise<Binaries> {
  const problems: string[] = []
  const misfits: Binaries[] = []
  for (const kind of request.kind ? [request.kind] : (['bundled', 'path'] as const)) {
    for await (const folder of kind === 'bundled' ? bundledFolders(problems) : pathFolders(problems)) {
      const found = await probe(kind, folder, request.account)
      if (typeof found === 'string') problems.push(found)
      else if (request.major !== undefined && found.major !== request.major) misfits.push(found)
      else if (found.major < majorMin) problems.push(`${found.postgres} is version ${found.version}`)
      else return found
      // The next bundled folder is a copy of this one: it only helps if the account may not enter this one.
      if (kind === 'bundled' && !isRefused(found)) break
    }
  }
  if (misfits.length > 0) throw versionMismatch(request, misfits)
  throw new PosthornError('EMBEDDED_UNAVAILABLE', { reason: problems.join('; '), package: bundlePackage })
}

/** First the package where npm put it, then copies that the account can reach. */
async function* bundledFolders(problems: string[]): AsyncGenerator<string> {
  const bundle = await findBundle()
  if (!bundle) {
    problems.push(`${bundlePackage} is not installed`)
    return
  }
  const linked = await linkedPrograms(bundle)
  if (linked !== undefined) yield linked
  yield* copiedPrograms(bundle, problems)
}

/** Distributions put links on PATH; `initdb` and the libraries are beside the files that the links point to. */
async function* pathFolders(problems: string[]): AsyncGenerator<string> {
  const seen = new Set<string>()
  for (const entry of (process.env.PATH ?? '').split(delimiter)) {
    if (!isAbsolute(entry)) continue
    const folder = await folderOf(join(entry, 'postgres'))
    if (folder === undefined || seen.has(folder)) continue
    seen.add(folder)
    yield folder
  }
  if (seen.size === 0) problems.push('there is no postgres on PATH')
}

async function folderOf(file: string): Promise<string | undefined> {
  const real = await unlessMissing(realpath(file), ['ENOTDIR', 'EACCES', 'ELOOP'])
  return real && dirname(real)
}

/** Runs both programs as the account: the only test that covers permissions, libraries and libc. */
async function probe(kind: BinariesKind, folder: string, account: Account): Promise<Binaries | string> {
  const postgres = join(folder, 'postgres')
  const initdb = join(folder, 'initdb')
  for (const file of [initdb, postgres]) {
    const result = await runProgram({ file, arguments: ['--version'], account, timeoutMs: 10_000 })
    if (result.kind === 'not started') return `${file} cannot be run (${result.reason})`
    const version = /\(PostgreSQL\) ((\d+)[^\s]*)/.exec(result.output)
    if (result.code !== 0 || version === null) return `${file} cannot be run (${result.output.slice(0, 100)})`
    if (file === postgres)
      return { kind, postgres, initdb, version: `${version[1]}`, major: Number(version[2]) }
  }
  return `${folder} is empty`
}

function isRefused(found: Binaries | string): boolean {
  return typeof found === 'string' && /EACCES|permission denied/i.test(found)
}

function versionMismatch({ directory, major }: BinariesRequest, misfits: readonly Binaries[]): PosthornError {
  const found = misfits.map(({ version, kind }) => `${version} (${kind})`).join(' and ')
  const reason = `PostgreSQL ${major} made it, and the server found here is ${found}`
  return new PosthornError('DATA_DIRECTORY_UNUSABLE', { directory, reason, made: major, found })
}
