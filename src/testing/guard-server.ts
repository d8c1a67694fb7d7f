import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import type { Socket } from 'node:net'
import { fileURLToPath } from 'node:url'

const guarded = new Set<string>()

/**
 * Has the embedded server in a directory shut down when this process ends without having stopped its hubs, as after a test
 * that threw. However it ends, the pipe to the guard is closed then.
 */
export function guardServer(dataDirectory: string): void {
  if (guarded.has(dataDirectory)) return
  guarded.add(dataDirectory)
  const program = findProgram()
  if (program === undefined) {
    process.emitWarning(
      `The embedded server in ${dataDirectory} has no guard, since posthorn/testing was bundled. ` +
        'It goes on if a test fails before hub.stop(). Leave posthorn out of the bundle, or stop every hub.',
    )
    return
  }
  const guard = spawn(process.execPath, [program, dataDirectory], {
    // Of its own session, so that an interrupt from the terminal does not end it with the test.
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  // Without a guard the test works all the same.
  guard.on('error', () => guarded.delete(dataDirectory))
  guard.unref()
  const pipe = guard.stdin as Socket
  pipe.unref()
}

/** The guard is a program of its own. A bundle has no files of ours beside it, and in CommonJS no address either. */
function findProgram(): string | undefined {
  const here: string | undefined = import.meta.url
  if (here === undefined) return undefined
  const program = fileURLToPath(new URL('./posthorn-guard.js', here))
  return existsSync(program) ? program : undefined
}
