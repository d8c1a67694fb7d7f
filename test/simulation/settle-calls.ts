import type { Database } from '../../src/db/database.ts'
import { complete, completeEach, completeHeads } from '../../src/engine/complete.ts'
import { type SettleRequest, settle } from '../../src/engine/settle.ts'
import { settleLate } from '../../src/engine/settle-late.ts'
import type { Claim } from './simulation.ts'

export interface Planned {
  readonly claim: Claim
  readonly request: SettleRequest
  /** The same was sent just before. */
  readonly repeat: boolean
}

/** One statement for all, and for those that come too late the question what became of them. */
export async function settleEach(db: Database, planned: readonly Planned[]): Promise<Map<Planned, string>> {
  const answers = new Map(planned.map((one) => [one, 'settled']))
  if (planned.length === 0) return answers
  const requests = planned.map((one) => one.request)
  for (const position of await settle(db, requests)) {
    const { claim, request } = planned[position - 1] as Planned
    const { subscription } = claim.lease
    answers.set(planned[position - 1] as Planned, await settleLate(db, { subscription, request }))
  }
  return answers
}

/** The same with the short cuts that the hub takes for whole runs and for heads of lanes that succeeded. */
export async function settleSorted(db: Database, planned: readonly Planned[]): Promise<Map<Planned, string>> {
  const completed = planned.filter(({ request }) => request.settlement === 'completed')
  const heads = completed.filter(({ claim }) => claim.lease.lane)
  const runs = new Map<string, Planned[]>()
  for (const one of completed.filter(({ claim, repeat }) => !claim.lease.lane && !repeat)) {
    const name = `${one.request.runId}/${one.request.token}`
    runs.set(name, [...(runs.get(name) ?? []), one])
  }
  const wholeRuns = [...runs.values()].filter((run) => run.length === run[0]?.claim.lease.size)
  const done = new Set([...(await completeWhole(db, wholeRuns)), ...(await completeHeadsOf(db, heads))])
  const rest = await settleEach(
    db,
    planned.filter((one) => !done.has(one)),
  )
  return new Map(planned.map((one) => [one, rest.get(one) ?? 'settled']))
}

/** The same with the short cut for workers elsewhere that have one delivery each. */
export async function settlePulled(db: Database, planned: readonly Planned[]): Promise<Map<Planned, string>> {
  const single = planned.filter(({ request, repeat }) => request.settlement === 'completed' && !repeat)
  const completed = await completeEach(
    db,
    single.map(({ request }) => request),
  )
  const done = new Set(single.filter((_, place) => completed[place] !== undefined))
  const rest = await settleEach(
    db,
    planned.filter((one) => !done.has(one)),
  )
  return new Map(planned.map((one) => [one, rest.get(one) ?? 'settled']))
}

async function completeWhole(db: Database, runs: readonly Planned[][]): Promise<Planned[]> {
  if (runs.length === 0) return []
  const requests = runs.map((run) => {
    const { runId, token } = (run[0] as Planned).request
    return { runId, token, startedAfterMs: run.map(() => 0), executionMs: run.map(() => 1) }
  })
  const completed = await complete(db, requests)
  return runs.filter((_, position) => completed.includes(position + 1)).flat()
}

async function completeHeadsOf(db: Database, heads: readonly Planned[]): Promise<Planned[]> {
  if (heads.length === 0) return []
  const requests = heads.map(({ claim, request }) => ({
    ...request,
    attempt: claim.attempt,
    startedAfterMs: 0,
    executionMs: 1,
  }))
  const rejected = await completeHeads(db, requests)
  return heads.filter((_, position) => !rejected.includes(position + 1))
}
