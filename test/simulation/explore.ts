import fc from 'fast-check'
import { type Command, commandLists, type Profile } from './commands.ts'
import { shorten } from './shorten.ts'
import { Simulation } from './simulation.ts'
import type { Stage } from './stage.ts'

export interface Exploration {
  readonly seed: number
  readonly runs: number
  readonly profile: Profile
  /** How long to look for a shorter list of commands once one has failed. */
  readonly shortenMsMax: number
}

export interface Finding {
  readonly seed: number
  readonly message: string
  /** As short as could be found. */
  readonly commands: readonly Command[]
}

/** Runs random lists of commands; returns the first that breaks something, made short. */
export async function explore(stage: Stage, exploration: Exploration): Promise<Finding | undefined> {
  const { seed, runs, profile, shortenMsMax } = exploration
  const property = fc.asyncProperty(commandLists(profile), async (commands) => {
    const broken = await runOnce(stage, commands)
    if (broken !== undefined) throw broken.error
  })
  const { failed, counterexample, errorInstance } = await fc.check(property, {
    seed,
    numRuns: runs,
    endOnFailure: true,
  })
  if (!failed) return undefined
  const breaks = async (commands: readonly Command[]) => (await runOnce(stage, commands))?.taken
  const commands = await shorten(counterexample?.[0] ?? [], breaks, performance.now() + shortenMsMax)
  const broken = await runOnce(stage, commands)
  const message =
    broken?.error.message ?? `It broke once, and not again: ${(errorInstance as Error | null)?.stack}`
  return { seed, message: String(message), commands }
}

export function describeFinding({ seed, message, commands }: Finding): string {
  return [
    message,
    `seed ${seed}, shortest list of commands:`,
    ...commands.map((one) => JSON.stringify(one)),
  ].join('\n')
}

interface Broken {
  readonly error: Error
  /** How many commands it took. */
  readonly taken: number
}

/** Returns what broke, if anything did. */
export async function runOnce(stage: Stage, commands: readonly Command[]): Promise<Broken | undefined> {
  const simulation = new Simulation(stage)
  await simulation.start()
  try {
    for (const command of commands) await simulation.perform(command)
    await simulation.finish()
    return undefined
  } catch (error) {
    return { error: error as Error, taken: Math.min(simulation.step, commands.length) }
  } finally {
    await simulation.abandon()
  }
}
