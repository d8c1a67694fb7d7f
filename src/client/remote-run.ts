import type { LeasedDelivery, LeasedRun } from '../domain/delivery.ts'
import type { StoredEvent } from '../domain/stored-event.ts'
import type { Leased } from './leases.ts'

/** A run as a remote worker knows it. */
export class RemoteRun implements LeasedRun {
  readonly id: number
  readonly subscription = 1
  /** Not used: the server's tokens are texts, in `leaseToken`. */
  readonly token = 0
  readonly leaseToken: string
  /** The token as JSON text. */
  readonly tokenText: string
  readonly laneKey: string | null
  readonly suspect: boolean
  readonly leasedUntil = new Date(0)
  readonly deliveries: RemoteDelivery[] = []
  /** How long the answer took: the lease may have begun this much later than the worker assumes. */
  readonly waitedMs: number

  constructor(id: number, { event, leaseToken, suspect }: Leased, waitedMs: number) {
    this.id = id
    this.leaseToken = leaseToken
    this.tokenText = JSON.stringify(leaseToken)
    this.laneKey = event.orderingKey
    this.suspect = suspect
    this.waitedMs = waitedMs
  }
}

export class RemoteDelivery implements LeasedDelivery {
  run: RemoteRun
  readonly event: StoredEvent
  readonly attempt: number
  readonly failures: number
  /** `settling`: the settlement is sent. `over`: settled or lost. */
  state: 'held' | 'settling' | 'over' = 'held'

  constructor(run: RemoteRun, { event, attempt, failures }: Leased) {
    this.run = run
    this.event = event
    this.attempt = attempt
    this.failures = failures
  }
}
