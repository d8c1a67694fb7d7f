import { createPosthorn } from '../create.ts'

/** Runs the hub and its upkeep until it is told to stop. Handlers live in the processes that import the library. */
export async function serve(): Promise<void> {
  const hub = await createPosthorn()
  await hub.start()
  process.stdout.write(`posthorn is running on ${hub.describe()}\n`)
  await toldToStop()
  await hub.stop()
}

function toldToStop(): Promise<void> {
  return new Promise((resolve) => {
    // A signal handler alone does not keep the process alive when the pool is idle.
    const keepAlive = setInterval(() => undefined, 60_000)
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.once(signal, () => {
        clearInterval(keepAlive)
        resolve()
      })
    }
  })
}
