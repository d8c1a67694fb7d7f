import type { Command, EventShape } from './commands.ts'

/** Whether a list of commands still breaks something; undefined if not, else how many of them it took. */
export type Breaks = (commands: readonly Command[]) => Promise<number | undefined>

/**
 * The shortest list that still breaks something, as far as it can be found in time: first without whole stretches
 * of commands, then without single ones, then with simpler ones. Made for this kind of list: it needs a tenth of
 * the runs that shrinking an array of anything would.
 */
export async function shorten(
  commands: readonly Command[],
  breaks: Breaks,
  untilMs: number,
): Promise<readonly Command[]> {
  let shortest = commands
  const isShorter = async (candidate: readonly Command[]) => {
    if (performance.now() > untilMs) return false
    const taken = await breaks(candidate)
    if (taken === undefined) return false
    // What comes after the break has nothing to do with it.
    shortest = candidate.slice(0, taken)
    return true
  }
  const isSimpler = async (position: number) => {
    const command = shortest[position]
    if (command === undefined) return false
    for (const simpler of simplerThan(command)) {
      if (await isShorter(shortest.with(position, simpler))) return true
    }
    return false
  }
  for (let size = Math.ceil(shortest.length / 2); size >= 1; size = size > 1 ? Math.ceil(size / 2) : 0) {
    for (let from = shortest.length - size; from > -size; from -= size) {
      const start = Math.max(from, 0)
      await isShorter([...shortest.slice(0, start), ...shortest.slice(start + size)])
    }
  }
  for (let position = shortest.length - 1; position >= 0; position--) {
    while (await isSimpler(position));
  }
  return shortest
}

function simplerThan(command: Command): Command[] {
  if (command.do === 'settle') {
    return withoutOne(command.items).map((items) => ({ ...command, items }))
  }
  if (command.do !== 'publish') return []
  const fewer = withoutOne(command.events).map((events) => ({ ...command, events }))
  const plainer = command.events.flatMap((event, position) =>
    plainerThan(event).map((shape) => ({ ...command, events: command.events.with(position, shape) })),
  )
  return [...fewer, ...plainer]
}

function withoutOne<T>(items: readonly T[]): T[][] {
  return items.length < 2 ? [] : items.map((_, position) => items.toSpliced(position, 1))
}

const plain = {
  tags: null,
  key: null,
  gate: null,
  delay: 0,
  lifetime: 0,
  maxRetries: null,
  idempotency: null,
}

function plainerThan(event: EventShape): EventShape[] {
  const fields = Object.keys(plain) as (keyof typeof plain)[]
  return fields
    .filter((field) => event[field] !== plain[field])
    .map((field) => ({ ...event, [field]: plain[field] }))
}
