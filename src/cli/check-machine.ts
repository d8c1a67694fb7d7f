import { createServer } from 'node:net'
import type { ServerConfig } from '../config.ts'
import { readManifest } from './command.ts'
import { type Finding, failed, fine } from './finding.ts'

const answerMsMax = 2_000

export function checkNode(): Finding {
  const wanted = readManifest().engines.node
  const [major, minor] = versionOf(process.versions.node)
  const [majorMin, minorMin] = versionOf(wanted)
  if (major > majorMin || (major === majorMin && minor >= minorMin)) return fine('node', process.version)
  return failed('node', process.version, `install Node ${wanted}`)
}

function versionOf(text: string): [major: number, minor: number] {
  const [, major, minor] = /(\d+)\.(\d+)/.exec(text) ?? []
  return [Number(major), Number(minor)]
}

/** The port must be free, or posthorn itself must listen on it. */
export async function checkPort({ host, port }: ServerConfig): Promise<Finding> {
  if (port === 0) return fine('port', 'any that is free')
  const place = `${port} of ${host}`
  const code = await tryToListen(host, port)
  if (code === undefined) return fine('port', `${place} is free`)
  if (code === 'EADDRINUSE') {
    if (await answersLikePosthorn(host, port)) return fine('port', `posthorn answers on port ${place}`)
    const other = `PORT=${port < 65_535 ? port + 1 : port - 1}`
    const fix = `stop the program that listens there, or set ${other}`
    return failed('port', `something else listens on port ${place}`, fix)
  }
  if (code === 'EACCES') return failed('port', `this user may not listen on port ${place}`, 'set PORT=8080')
  const says = `nobody can listen on port ${place}: ${code}`
  return failed('port', says, 'set HOST to an address of this machine')
}

/** Resolves with the code of the error, if there is one. */
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
    // It does not speak HTTP as posthorn does.
    return false
  }
}
