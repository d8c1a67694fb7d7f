import { spawn } from 'node:child_process'
import { type Account, type DirectoryHandle, spawnAs } from './account.ts'

const outputBytesMax = 16_384

interface ProgramRequest {
  readonly file: string
  readonly arguments: readonly string[]
  readonly account: Account
  readonly directory?: DirectoryHandle
  readonly timeoutMs: number
}

type ProgramResult =
  | { readonly kind: 'ended'; readonly code: number | null; readonly output: string }
  | { readonly kind: 'not started'; readonly reason: string }

/** Runs one of PostgreSQL's programs to its end. */
export function runProgram(request: ProgramRequest): Promise<ProgramResult> {
  return new Promise((resolve) => {
    const child = spawn(request.file, request.arguments, {
      ...spawnAs(request.account),
      cwd: '/',
      env: programEnvironment(),
      stdio: ['ignore', 'pipe', 'pipe', ...(request.directory?.stdio ?? [])],
      timeout: request.timeoutMs,
    })
    let output = ''
    const collect = (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-outputBytesMax)
    }
    child.stdout?.on('data', collect)
    child.stderr?.on('data', collect)
    child.on('error', (error) => resolve({ kind: 'not started', reason: error.message }))
    child.on('close', (code) => resolve({ kind: 'ended', code, output: output.trim() }))
  })
}

/**
 * A clean environment: PG* variables would redirect the server, a locale would translate its log, and initdb would search
 * all time zones for the local one.
 */
export function programEnvironment(): Record<string, string> {
  return { PATH: process.env.PATH ?? '', LC_ALL: 'C', TZ: 'UTC' }
}
