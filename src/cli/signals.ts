export interface Signals {
  /** Resolves when the process is told to stop. Being told again ends it at once. */
  readonly told: Promise<NodeJS.Signals>
  /** From here on signals do what they do by themselves. */
  release(): void
}

/** `npm start` hands on the Ctrl-C that the terminal has sent to all of us: both are one. */
const sameSignalMs = 500

export function watchSignals(): Signals {
  // A signal handler alone does not keep the process alive when there is nothing to do.
  const keepAlive = setInterval(() => undefined, 60_000)
  let toldAt: number | undefined
  let resolve: (signal: NodeJS.Signals) => void = () => undefined
  const told = new Promise<NodeJS.Signals>((tell) => {
    resolve = tell
  })
  const onSignal = (signal: NodeJS.Signals) => {
    toldAt ??= performance.now()
    resolve(signal)
    if (performance.now() - toldAt > sameSignalMs) process.exit(1)
  }
  process.on('SIGTERM', onSignal).on('SIGINT', onSignal)
  const release = () => {
    clearInterval(keepAlive)
    process.off('SIGTERM', onSignal).off('SIGINT', onSignal)
  }
  return { told, release }
}
