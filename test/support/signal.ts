import { setTimeout as delay } from 'node:timers/promises'

/** A promise that a test settles by hand, to hold one side until the other is where it should be. */
export interface Signal {
  readonly given: Promise<void>
  give(): void
}

export function createSignal(): Signal {
  let give: () => void = () => undefined
  const given = new Promise<void>((resolve) => {
    give = resolve
  })
  return { given, give: () => give() }
}

/** For what only the server knows: asks again until it holds, and fails with the question after a minute. */
export async function eventually(question: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  for (let asked = 0; asked < 3_000; asked++) {
    if (await holds()) return
    await delay(20)
  }
  throw new Error(`Not so after a minute: ${question}`)
}
