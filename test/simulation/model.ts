import type { Policy } from './stage.ts'

/**
 * What the contract says, in plain arrays. Runs, chunks and admissions are the engine's affair; where it may
 * choose (how many deliveries share a run, which of two overlapping transactions comes first), the checks look
 * at its choice, test that it is among the allowed ones, and the model follows.
 */
export interface Delivery {
  readonly eventId: number
  readonly policy: Policy
  readonly key: string | null
  /** Its concurrency key, where the subscription has a limit per key. */
  readonly gate: string | null
  readonly tags: readonly string[] | null
  readonly failuresMax: number
  /** When its publish began, when it was committed, and where it stood among all that were published. */
  published: { started: number; committed: number; transaction: number; place: number }
  /**
   * `arrived`: committed, not yet in its lane or at its gate. `waiting`: may be leased as soon as it heads its
   * lane. `deferred`: due later, holds its lane. `delayed`: due later, not yet in its lane.
   */
  state:
    | 'arrived'
    | 'waiting'
    | 'deferred'
    | 'delayed'
    | 'leased'
    | 'completed'
    | 'buried'
    | 'expired'
    | 'cancelled'
  dueAt: number | null
  expiresAt: number | null
  /** Attempts and failures counted so far: an attempt under way is not among them. */
  attempts: number
  failures: number
  /** After a late completion: the failure that its reclaim had counted may stay, or be taken back. */
  failuresOr: number | null
  audits: number
  /** Known to be under way. */
  begun: boolean
  /** Was out when its worker vanished. */
  suspect: boolean
  /** The lease that may settle it: the one in force, or the one that was reclaimed and not replaced. */
  fence: Lease | null
  /** The reclaim has counted the attempt under `fence`. */
  charged: boolean
  /** An operator wants it stopped. */
  told: boolean
  readonly settledBy: Map<number, string>
}

export interface Lease {
  readonly token: number
  readonly runId: number
  readonly subscription: number
  readonly lane: boolean
  /** How many deliveries came with it. */
  readonly size: number
  until: number
}

export interface Lane {
  /** All that is in it and not finished, in order. */
  order: Delivery[]
  /** Stopped at this buried head. `expiresAt` is what a retried head would get back. */
  blocked: { eventId: number; expiresAt: number | null } | null
}

export interface Letter {
  readonly delivery: Delivery
  readonly kind: 'buried' | 'expired'
  readonly attempts: number
  readonly failures: number
  redriven: boolean
}

const finishedStates: readonly Delivery['state'][] = ['completed', 'buried', 'expired', 'cancelled']

export function isFinished(delivery: Delivery): boolean {
  return finishedStates.includes(delivery.state)
}

export class Model {
  now = 0
  readonly deliveries: Delivery[] = []
  readonly eventIds: number[] = []
  readonly lanes = new Map<string, Lane>()
  letters: Letter[] = []

  lane({ policy, key }: { policy: { no: number }; key: string | null }): Lane {
    const name = `${policy.no}/${key}`
    const lane = this.lanes.get(name) ?? { order: [], blocked: null }
    this.lanes.set(name, lane)
    return lane
  }

  find(eventId: number, subscription: number): Delivery | undefined {
    return this.deliveries.find((one) => one.eventId === eventId && one.policy.no === subscription)
  }

  /** The deliveries that a lease still covers, in the order of its run. */
  covered(lease: Lease): Delivery[] {
    const covered = this.deliveries.filter((one) => one.state === 'leased' && one.fence === lease)
    if (!lease.lane) return covered
    const [first] = covered
    return first === undefined ? [] : this.lane(first).order.filter((one) => covered.includes(one))
  }

  commit(deliveries: readonly Delivery[], step: number): void {
    for (const delivery of deliveries) {
      delivery.published.committed = step
      this.deliveries.push(delivery)
    }
  }

  lease(delivery: Delivery, lease: Lease, begun: boolean): void {
    Object.assign(delivery, { state: 'leased', fence: lease, begun, charged: false, told: false })
    // Whoever had the lane before has lost all of it.
    const others = delivery.key === null ? [] : this.lane(delivery).order.filter((one) => one.fence !== lease)
    for (const other of others) other.fence = null
  }

  complete(delivery: Delivery, failures: number): void {
    this.#attempted(delivery, failures)
    delivery.settledBy.set((delivery.fence as Lease).token, 'completed')
    this.#finish(delivery, 'completed')
  }

  bury(delivery: Delivery, failures: number): void {
    delivery.settledBy.set((delivery.fence as Lease).token, 'buried')
    this.#bury(delivery, this.#stillCounted(delivery, failures))
  }

  #bury(delivery: Delivery, failures: number): void {
    this.#attempted(delivery, failures)
    const { attempts, expiresAt, eventId } = delivery
    const blocks = delivery.key !== null && delivery.policy.blocks
    if (blocks) {
      this.#loseLane(delivery)
      this.lane(delivery).blocked = { eventId, expiresAt }
    }
    this.#finish(delivery, 'buried')
    this.letters.push({ delivery, kind: 'buried', attempts, failures, redriven: false })
  }

  /** Retried or snoozed, unless it was told to stop. In a lane the whole run goes back with its head. */
  defer(
    delivery: Delivery,
    { dueAt, failures, settlement }: { dueAt: number; failures: number; settlement: string },
  ): void {
    this.#attempted(delivery, this.#stillCounted(delivery, failures))
    this.#loseLane(delivery)
    if (delivery.told) {
      this.#stop(delivery)
      return
    }
    delivery.settledBy.set((delivery.fence as Lease).token, settlement)
    Object.assign(delivery, { state: 'deferred', dueAt, fence: null, begun: false })
  }

  /** Handed back by its worker: recorded, not counted. */
  handBack(delivery: Delivery, failures: number): void {
    delivery.audits++
    this.#count(delivery, this.#stillCounted(delivery, failures))
    this.#loseLane(delivery)
    if (delivery.told) this.#stop(delivery)
    else this.#toWaiting(delivery)
  }

  /** A whole run handed back: as if it had not been leased. */
  release(lease: Lease): void {
    for (const delivery of this.covered(lease)) this.#toWaiting(delivery)
  }

  reset(delivery: Delivery): void {
    delivery.audits++
    delivery.attempts++
    this.#loseLane(delivery)
    this.#toWaiting(delivery)
  }

  /** The lease has ended. Returns those charged: what had begun. */
  reclaim(lease: Lease): Delivery[] {
    const covered = this.covered(lease)
    const charged = covered.filter((one) => one.begun)
    for (const delivery of charged) {
      // What the reclaim records is not the worker's settlement.
      const failures = delivery.failures + 1
      if (failures >= delivery.failuresMax && !delivery.told) this.#bury(delivery, failures)
      else {
        this.#attempted(delivery, failures)
        delivery.charged = true
      }
    }
    const left = covered.filter((one) => one.state === 'leased')
    for (const delivery of left) Object.assign(delivery, { state: 'waiting', begun: false })
    // Only a lane's head can have been under way.
    const suspects = lease.lane ? left.filter((one) => this.lane(one).order[0] === one) : left
    for (const delivery of suspects) delivery.suspect ||= !lease.lane || covered[0] === delivery
    for (const delivery of left.filter((one) => one.told)) this.cancel(delivery)
    return charged
  }

  expire(delivery: Delivery): void {
    const { attempts, failures } = delivery
    delivery.audits++
    this.#finish(delivery, 'expired')
    this.letters.push({ delivery, kind: 'expired', attempts, failures, redriven: false })
  }

  /** By hand, while it waits. A lane stops only at what was its head. */
  buryWaiting(delivery: Delivery): void {
    const { attempts, failures, expiresAt, eventId } = delivery
    delivery.audits++
    const blocks = delivery.policy.blocks && this.isHead(delivery)
    this.#finish(delivery, 'buried')
    if (blocks) {
      const lane = this.lane(delivery)
      lane.blocked = { eventId, expiresAt }
      for (const other of lane.order) other.fence = null
    }
    this.letters.push({ delivery, kind: 'buried', attempts, failures, redriven: false })
  }

  /** Due before its time; what was counted stays so. */
  hasten(delivery: Delivery): void {
    if (delivery.state !== 'deferred') return
    delivery.audits++
    Object.assign(delivery, { state: 'waiting', dueAt: null })
  }

  /** Next in its lane, which is not stopped. */
  isHead(delivery: Delivery): boolean {
    if (delivery.key === null) return false
    const { order, blocked } = this.lane(delivery)
    return order[0] === delivery && blocked === null
  }

  cancel(delivery: Delivery): void {
    delivery.audits++
    this.#finish(delivery, 'cancelled')
  }

  redrive(letter: Letter, place: { step: number; transaction: number; place: number }): void {
    const { delivery } = letter
    letter.redriven = true
    delivery.audits++
    Object.assign(delivery, { failures: 0, suspect: false, dueAt: null })
    const lane = delivery.key === null ? undefined : this.lane(delivery)
    if (lane?.blocked?.eventId === delivery.eventId) {
      Object.assign(delivery, { state: 'waiting', expiresAt: lane.blocked.expiresAt })
      lane.order.unshift(delivery)
      lane.blocked = null
      return
    }
    const { step, ...rest } = place
    delivery.published = { started: step, committed: step, ...rest }
    delivery.expiresAt = null
    delivery.state = delivery.key !== null || delivery.gate !== null ? 'arrived' : 'waiting'
  }

  /** The blocked lane goes on; a discarded head is gone from the dead letters as well. */
  unblock(lane: Lane, verb: 'skip' | 'discard'): void {
    const head = this.deliveries.find((one) => one.eventId === lane.blocked?.eventId && this.#isOf(one, lane))
    lane.blocked = null
    if (verb === 'skip' || head === undefined) return
    head.audits++
    head.state = 'cancelled'
    this.letters = this.letters.filter((letter) => letter.delivery !== head || letter.redriven)
  }

  #isOf(delivery: Delivery, lane: Lane): boolean {
    return delivery.key !== null && this.lane(delivery) === lane
  }

  #attempted(delivery: Delivery, failures: number): void {
    delivery.audits++
    if (delivery.state === 'leased' || !delivery.charged) delivery.attempts++
    this.#count(delivery, failures)
  }

  /** Only a completion takes back the failure that a reclaim has counted. */
  #stillCounted(delivery: Delivery, failures: number): number {
    return this.#isLate(delivery) ? Math.max(failures, delivery.failures) : failures
  }

  #isLate({ state, charged }: Delivery): boolean {
    return state !== 'leased' && charged
  }

  #count(delivery: Delivery, failures: number): void {
    delivery.failuresOr = this.#isLate(delivery) ? delivery.failures : null
    delivery.failures = failures
  }

  #finish(delivery: Delivery, state: 'completed' | 'buried' | 'expired' | 'cancelled'): void {
    Object.assign(delivery, { state, fence: null, begun: false, dueAt: null, suspect: false, told: false })
    if (delivery.key === null) return
    const lane = this.lane(delivery)
    lane.order = lane.order.filter((one) => one !== delivery)
  }

  /** What its worker held behind a head that did not make it is no longer the worker's. */
  #loseLane(head: Delivery): void {
    if (head.key === null || head.fence === null) return
    const lost = this.lane(head).order.filter((one) => one !== head && one.fence === head.fence)
    for (const delivery of lost) this.#toWaiting(delivery)
  }

  /** What its worker was told to stop does not come back. */
  #toWaiting(delivery: Delivery): void {
    if (delivery.told) this.cancel(delivery)
    else Object.assign(delivery, { state: 'waiting', fence: null, begun: false })
  }

  /** Its worker, told to stop, wanted it tried again: that is recorded as the cancellation. */
  #stop(delivery: Delivery): void {
    delivery.settledBy.set((delivery.fence as Lease).token, 'cancelled')
    this.#finish(delivery, 'cancelled')
  }
}
