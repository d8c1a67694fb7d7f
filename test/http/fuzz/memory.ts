import type { Slot } from './tree.ts'

interface Lease {
  readonly eventId: number
  readonly token: string
  readonly worker: string
}

const kept = 60

/** What earlier answers gave. Leases stay when they are settled: their tokens are then old ones. */
export class Memory {
  readonly events: number[] = []
  readonly leases: Lease[] = []
  readonly subscribers: { id: string; name: string }[] = []
  readonly replays: string[] = []
  readonly cursors: string[] = []
  readonly deliveries: string[] = []
  readonly deadLetters: string[] = []
  /** Of each event that was stored, the payload's text as it was sent. */
  readonly payloads = new Map<number, string>()

  /** The latest are picked more often, so that some of what is asked for is still there. */
  look({ kind, pick }: Slot): string | number {
    switch (kind) {
      case 'event':
        return latest(this.events, pick) ?? 1
      case 'lease event':
        return latest(this.leases, pick)?.eventId ?? latest(this.events, pick) ?? 1
      case 'lease token':
        return latest(this.leases, pick)?.token ?? 'r1-2s-0'
      case 'lease worker':
        return latest(this.leases, pick)?.worker ?? 'worker-1'
      case 'worker':
        return `worker-${pick % 5}`
      case 'subscriber':
        return latest(this.subscribers, pick)?.id ?? '0198e2a4-7c1b-7d52-9a3e-5f0c6b8d1e27'
      case 'replay':
        return latest(this.replays, pick) ?? '0198e2a4-7c1b-7d52-9a3e-5f0c6b8d1e27'
      case 'name':
        return latest(this.subscribers, pick)?.name ?? 'work'
      case 'cursor':
        return latest(this.cursors, pick) ?? 'YXNjOjE'
      case 'delivery':
        return latest(this.deliveries, pick) ?? '0198e2a4-7c1b-7d52-9a3e-5f0c6b8d1e27'
      case 'dead letter':
        return latest(this.deadLetters, pick) ?? '0198e2a4-7c1b-7d52-9a3e-5f0c6b8d1e27'
    }
  }

  /** Takes what there is to take from an answer that was good. */
  learn(json: unknown, asked: Asked): void {
    for (const one of Array.isArray(json) ? json : [json]) this.#learnOne(one, asked)
  }

  #learnOne(json: unknown, asked: Asked): void {
    if (typeof json !== 'object' || json === null) return
    const {
      id,
      name: called,
      kind,
      lease_token: token,
      next_cursor: cursor,
      events,
      subscribers,
      deliveries,
      dead_letters: letters,
    } = json as Answered
    if (asked.isPublish && typeof id === 'number') remember(this.events, id)
    if (typeof token === 'string' && typeof id === 'number') {
      remember(this.leases, { eventId: id, token, worker: asked.worker })
    }
    // The work queue is left alone: once it is paused, hardly anything more would happen.
    if (typeof id === 'string' && typeof called === 'string' && called !== 'work')
      remember(this.subscribers, { id, name: called })
    if (typeof id === 'string' && typeof kind === 'string') remember(this.replays, id)
    if (typeof cursor === 'string') remember(this.cursors, cursor)
    for (const delivery of deliveries ?? []) remember(this.deliveries, delivery.id)
    for (const letter of letters ?? []) remember(this.deadLetters, letter.id)
    for (const inner of [...(events ?? []), ...(subscribers ?? [])]) this.#learnOne(inner, asked)
  }
}

interface Asked {
  readonly worker: string
  readonly isPublish: boolean
}

interface Answered {
  readonly id?: unknown
  readonly name?: unknown
  readonly kind?: unknown
  readonly lease_token?: unknown
  readonly next_cursor?: unknown
  readonly events?: readonly unknown[]
  readonly subscribers?: readonly unknown[]
  readonly deliveries?: readonly { readonly id: string }[]
  readonly dead_letters?: readonly { readonly id: string }[]
}

function latest<T>(list: readonly T[], pick: number): T | undefined {
  const among = pick % 3 === 0 ? kept : 6
  return list[list.length - 1 - (Math.floor(pick / 3) % Math.min(list.length, among))]
}

function remember<T>(list: T[], one: T): void {
  list.push(one)
  if (list.length > kept) list.shift()
}
