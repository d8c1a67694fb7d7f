import { createServer } from 'node:net'
import type { ServerConfig } from '../config.ts'
import type { Finding } from './finding.ts'
import { readManifest } from './version.ts'

const answerMsMax = 2_000

export function checkNode(): Finding {
  const wanted = readManifest().engines.node
  const [major, minor] = versionOf(process.versions.node)
  const [majorMin, minorMin] = versionOf(wanted)
  const check = 'node'
  if (major > majorMin || (major === majorMin && minor >= minorMin)) {
    return { check, state: 'ok', says: process.version }
  }
  return { check, state: 'fail', says: process.version, fix: `install Node ${wanted}` }
}

function versionOf(text: string): [major: number, minor: number] {
  const [, major, minor] = /(\d+)\.(\d+)/.exec(text) ?? []
  return [Number(major), Number(minor)]
}

/** Free, or posthorn's own already. */
export async function checkPort({ host, port }: ServerConfig): Promise<Finding> {
  const check = 'port'
  if (port === 0) return { check, state: 'ok', says: 'any that is free' }
  const place = `${port} of ${host}`
  const other = `PORT=${port < 65_535 ? port + 1 : port - 1}`
  const trouble = await tryToListen(host, port)
  if (trouble === undefined) return { check, state: 'ok', says: `${place} is free` }
  if (trouble === 'EADDRINUSE') {
    if (await answersLikePosthorn(host, port)) {
      return { check, state: 'ok', says: `posthorn answers on port ${place}` }
    }
    const fix = `stop what listens there, or set ${other}`
    return { check, state: 'fail', says: `something else listens on port ${place}`, fix }
  }
  if (trouble === 'EACCES') {
    return { check, state: 'fail', says: `this user may not listen on port ${place}`, fix: 'set PORT=8080' }
  }
  const fix = 'set HOST to an address of this machine'
  return { check, state: 'fail', says: `nobody can listen on port ${place}: ${trouble}`, fix }
}

/** The code of the error, if there is one. */
function tryToListen(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    server.listen({ host, port }, () => server.close(() => resolve(undefined)))
  })
}

async function answersLikePosthorn(host: string, port: number): Promise<boolean> {
  const near = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  try {
    const url = `http://${near.includes(':') ? `[${near}]` : near}:${port}/livez`
    const response = await fetch(url, { signal: AbortSignal.timeout(answerMsMax) })
    return response.headers.has('x-request-id') && (await response.text()) === '{"status":"ok"}'
  } catch {
    // Whatever it is, it does not speak as we do.
    return false
  }
}
