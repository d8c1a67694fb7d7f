import { expect, test } from 'vitest'
import { findPrograms } from '../support/replicas.js'
import { apartFromTime } from './driving.ts'

interface Options {
  readonly seed: number
  readonly secs: number
  readonly isSynchronous: boolean
  readonly programs: string
  readonly standstillMs: number
}
interface Report {
  readonly violations: readonly { readonly rule: string; readonly text: string }[]
  readonly counts: Readonly<Record<string, number>>
}

const { runFailover } = (await import(new URL('./failover.js', import.meta.url).href)) as {
  runFailover: (options: Options) => Promise<Report>
}
const programs = await findPrograms()
if (programs === undefined)
  process.stdout.write('chaos: failover: skipped, as no programs of a PostgreSQL server are here\n')

test.skipIf(programs === undefined).each([
  ['a synchronous standby loses nothing acknowledged', true],
  ['an asynchronous standby gives no id twice', false],
])(
  'a failover to %s, under everything that the driver does',
  { timeout: 900_000 },
  async (_, isSynchronous) => {
    const options = { seed: 5, secs: 4, isSynchronous, programs: programs as string, standstillMs: 90_000 }
    const { violations, counts } = await runFailover(options)
    process.stdout.write(`chaos: failover: ${JSON.stringify(counts)}\n`)
    expect(apartFromTime(violations)).toEqual([])
    expect(counts.ackedAfter).toBeGreaterThan(0)
    expect(counts.jumped).toBe(1)
  },
)
