export interface Signals {
  /** Resolves when the process is told to stop. Being told again ends it at once. */
  readonly told: Promise<NodeJS.Signals>
  /** From here on signals do what they do by themselves. */
  release(): void
}

/** From a supervisor, from Ctrl-C, and from a terminal that was closed. */
const stopSignals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const

/**
 * How often to look whether our parent is still there, where npm started us: npm hands signals on to a shell, which dies of
 * them and tells nobody, and npm itself can be killed.
 */
const parentCheckMs = 500

/** `npm start` hands on the Ctrl-C that the terminal has sent to all of us: both are one. */
const sameSignalMs = 500

export function watchSignals(): Signals {
  const parent = process.ppid
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
  const isFromNpm = process.env.npm_lifecycle_event !== undefined
  const checkParent = () => {
    if (isFromNpm && process.ppid !== parent) resolve('SIGTERM')
  }
  // It also keeps the process alive when there is nothing to do, which a signal handler alone does not.
  const parentCheck = setInterval(checkParent, parentCheckMs)
  for (const signal of stopSignals) process.on(signal, onSignal)
  const release = () => {
    clearInterval(parentCheck)
    for (const signal of stopSignals) process.off(signal, onSignal)
  }
  return { told, release }
}
