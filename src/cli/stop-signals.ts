interface Signals {
  /** Resolves with the first signal to stop. A second signal ends the process at once. */
  readonly received: Promise<NodeJS.Signals>
  /** From here on signals do what Node does with them. */
  release(): void
}

/** From a supervisor, from Ctrl-C, and from a terminal that was closed. */
const stopSignals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const

/**
 * If npm started this process: how often to check that its parent is still there. npm passes signals on to a shell, which dies
 * of them without passing them on, and npm itself can be killed.
 */
const parentCheckMs = 500

/** `npm start` passes on a Ctrl-C that the terminal has also sent to this process: both count as one signal. */
const sameSignalMs = 500

export function watchSignals(): Signals {
  const parent = process.ppid
  let firstAt: number | undefined
  let resolve: (signal: NodeJS.Signals) => void = () => undefined
  const received = new Promise<NodeJS.Signals>((fulfil) => {
    resolve = fulfil
  })
  const onSignal = (signal: NodeJS.Signals) => {
    firstAt ??= performance.now()
    resolve(signal)
    if (performance.now() - firstAt > sameSignalMs) process.exit(1)
  }
  const isFromNpm = process.env.npm_lifecycle_event !== undefined
  const checkParent = () => {
    if (isFromNpm && process.ppid !== parent) resolve('SIGTERM')
  }
  // The timer also keeps the process alive while it has nothing to do; a signal handler alone does not.
  const parentCheck = setInterval(checkParent, parentCheckMs)
  for (const signal of stopSignals) process.on(signal, onSignal)
  const release = () => {
    clearInterval(parentCheck)
    for (const signal of stopSignals) process.off(signal, onSignal)
  }
  return { received, release }
}
