import pg from 'pg'
import { vi } from 'vitest'
import type { TestAnswer } from '../support/http.ts'
import { eventually } from '../support/signal.ts'
import type { Pulling } from './pulling.ts'

/** Calls that wait, once all of them do. */
export async function park(
  pulling: Pulling,
  count: number,
  query: Record<string, string | number> = {},
): Promise<Promise<TestAnswer>[]> {
  const { hub } = pulling.server
  const before = hub.pull.waiting
  const calls = Array.from({ length: count }, (_, no) =>
    pulling.subscribe({ worker_id: `w${no}`, wait: 60, ...query }),
  )
  await eventually(`${count} more are parked`, () => hub.pull.waiting === before + count)
  return calls
}

/** The names of the statements that this process sends, from now on. */
export function listenToStatements(): { names: string[]; count(...names: string[]): number } {
  const names: string[] = []
  const query = pg.Client.prototype.query
  vi.spyOn(pg.Client.prototype, 'query').mockImplementation(function (this: pg.Client, ...args: unknown[]) {
    const [sent] = args as [{ name?: string; text?: string } | string]
    names.push(typeof sent === 'string' ? sent : (sent.name ?? sent.text ?? 'another'))
    return (query as (...args: unknown[]) => unknown).apply(this, args)
  } as never)
  return {
    names,
    count: (...wanted) => names.filter((name) => wanted.some((one) => name.includes(one))).length,
  }
}
