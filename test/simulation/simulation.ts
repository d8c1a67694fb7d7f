import { Admitter } from '../../src/engine/admit.ts'
import { moveClock } from '../../src/engine/clock.ts'
import { registerWorker } from '../../src/workers/workers.ts'
import { checkAdmitted, checkStanding } from './check.ts'
import type { Command } from './commands.ts'
import { checkEvents } from './event-check.ts'
import { completeIn, heartbeatLease, leaseRuns, releaseRun } from './leasing.ts'
import { type Delivery, isFinished, type Lease, Model } from './model.ts'
import { buryOne, cancelEvents, hastenOne, redriveLetters, resetEvent, unblock } from './operating.ts'
import { admitAll, type OpenPublishes, publishEvents } from './publishing.ts'
import { heldClaims, settleItems } from './settling.ts'
import { readSnapshot, type Snapshot } from './snapshot.ts'
import type { Stage } from './stage.ts'
import { expireAll, reclaimAll } from './upkeep.ts'

/** What a worker believes to have: it may be wrong by now. */
export interface Claim {
  readonly worker: number
  readonly lease: Lease
  readonly delivery: Delivery
  readonly attempt: number
  readonly failures: number
}

/** One run: the real thing, the model, and what the workers in between remember. */
export class Simulation {
  readonly stage: Stage
  readonly model = new Model()
  readonly admitters: readonly Admitter[]
  readonly open: (OpenPublishes | undefined)[] = []
  readonly idempotency = new Map<string, { eventId: number; print: string; transaction: number | null }>()
  readonly workers: number[] = []
  claims: Claim[] = []
  leases: Lease[] = []
  /** As of the last command. */
  snapshot: Snapshot = {
    runs: [],
    queue: [],
    inbox: [],
    notes: 0,
    readyTags: [],
    letters: [],
    deliveries: [],
    totals: [],
    recorded: [],
  }
  step = 0
  places = 0
  transactions = 0
  #epoch = 0
  #startedAt = 0

  constructor(stage: Stage) {
    this.stage = stage
    this.admitters = [new Admitter(stage.db), new Admitter(stage.db)]
  }

  get db() {
    return this.stage.db
  }

  async start(): Promise<void> {
    this.#epoch = await this.stage.clear()
    this.#startedAt = performance.now()
    for (const name of ['w0', 'w1', 'w2']) this.workers.push(await registerWorker(this.db, name))
  }

  /** Ends half a minute off the full minutes by which the clock moves: real milliseconds never matter. */
  after(minutes: number): number {
    return minutes * 60_000 + 30_000
  }

  timeAt(modelMs: number): Date {
    return new Date(this.#epoch + modelMs)
  }

  async look(): Promise<Snapshot> {
    this.snapshot = await readSnapshot(this.db)
    return this.snapshot
  }

  async perform(command: Command): Promise<void> {
    this.step++
    if (performance.now() - this.#startedAt > 20_000)
      throw new Error('One run took so long that time passed by itself')
    await this.#do(command)
    checkStanding(this.model, await this.look())
    if (command.do === 'admit') checkAdmitted(this.model, this.snapshot, this.stage.policies)
  }

  async #do(command: Command): Promise<void> {
    switch (command.do) {
      case 'publish':
        return publishEvents(this, command)
      case 'end':
        return this.open[command.transaction]?.end(command.how)
      case 'admit':
        return admitAll(this, command.process)
      case 'lease':
        return leaseRuns(this, command)
      case 'heartbeat':
        return heartbeatLease(this, command)
      case 'release':
        return releaseRun(this, command.lease)
      case 'settle':
        return settleItems(this, command.items)
      case 'completeIn':
        return completeIn(this, command)
      case 'crash':
        this.claims = this.claims.filter((claim) => claim.worker !== command.worker)
        return
      case 'move':
        this.model.now += command.minutes * 60_000
        return moveClock(this.db, this.model.now)
      case 'reclaim':
        return reclaimAll(this)
      case 'expire':
        return expireAll(this)
      case 'redrive':
        return redriveLetters(this, command.letters)
      case 'reset':
        return resetEvent(this, command.event)
      case 'cancel':
        return cancelEvents(this, command.events)
      case 'bury':
        return buryOne(this, command.delivery)
      case 'hasten':
        return hastenOne(this, command.delivery)
      case 'unblock':
        return unblock(this, command)
    }
  }

  /** Whatever happened: everything that waits can still be done, in order, and nothing is left over. */
  async finish(): Promise<void> {
    for (const transaction of this.open.keys()) await this.perform({ do: 'end', transaction, how: 'commit' })
    const roundsMax = 20 + this.model.deliveries.length
    for (let round = 0; !this.model.deliveries.every(isFinished); round++) {
      if (round > roundsMax) throw new Error(`Some deliveries can't be finished: ${this.#unfinished()}`)
      for (const lane of this.model.lanes.keys()) {
        if (this.model.lanes.get(lane)?.blocked) {
          await this.perform({
            do: 'unblock',
            lane: [...this.model.lanes.keys()].indexOf(lane),
            verb: 'skip',
          })
        }
      }
      if (round % 2 === 0) await this.perform({ do: 'move', minutes: 60 })
      await this.perform({ do: 'reclaim' })
      await this.perform({ do: 'expire' })
      await this.perform({ do: 'admit', process: round % 2 })
      this.claims = []
      await this.perform(leaseAll)
      while (heldClaims(this).length > 0) {
        const items = this.claims.map(
          () =>
            ({
              claim: 0,
              from: 'held',
              outcome: 'complete',
              minutes: 1,
              twice: false,
              shortCuts: round % 2 === 0 ? 'hub' : 'none',
            }) as const,
        )
        await this.perform({ do: 'settle', items })
      }
    }
    await checkEvents(this)
  }

  async abandon(): Promise<void> {
    for (const publishes of this.open) await publishes?.end('rollback')
  }

  #unfinished(): string {
    const unfinished = this.model.deliveries.filter((one) => !isFinished(one))
    return unfinished.map((one) => `${one.eventId}/${one.policy.no} ${one.state}`).join(', ')
  }
}

const leaseAll: Command = {
  do: 'lease',
  worker: 0,
  subscriptions: [0, 1, 2, 3, 4],
  eventsMax: 200,
  laneMax: 100,
  suspects: true,
  minutes: 4,
  begins: 'reported',
  tags: null,
  each: false,
}
