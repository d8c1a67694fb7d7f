/** Prints one line. */
export type Out = (line: string) => void

export interface Command {
  readonly help: string
  /** Given what follows the command's name. Resolves with the exit code. */
  run(args: readonly string[], out: Out): Promise<number>
}

/** Whether somebody asked for a log: commands are silent by themselves. */
export function isLogging(): boolean {
  return (process.env.LOG_LEVEL ?? '') !== ''
}
