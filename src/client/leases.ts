import { type StoredEvent, storedEvent } from '../domain/stored-event.ts'
import { scanObjects, type Visitor } from './scan.ts'
import { rareFields } from './translate.ts'

/** What a worker needs of a leased event. */
export interface Leased {
  readonly event: StoredEvent
  readonly leaseToken: string
  readonly attempt: number
  readonly failures: number
  readonly suspect: boolean
}

/** The leased events of one answer, in order. One object is reused for all of them. */
export function readLeases(text: string, take: (leased: Leased) => void): void {
  if (text !== '') scanObjects(text, new LeaseReader(text, take))
}

class LeaseReader implements Visitor, Leased {
  event: StoredEvent = noEvent
  leaseToken = ''
  attempt = 1
  failures = 0
  suspect = false
  readonly #text: string
  readonly #take: (leased: Leased) => void
  #id = 0
  #type: string | null = null
  #payloadText = 'null'
  #orderingKey: string | null = null
  #createdAtMs = 0
  #rare: Record<string, unknown> | undefined

  constructor(text: string, take: (leased: Leased) => void) {
    this.#text = text
    this.#take = take
  }

  member(key: string, start: number, end: number): void {
    switch (key) {
      case 'id':
        this.#id = Number(this.#text.slice(start, end))
        break
      case 'type':
        this.#type = this.#string(start, end)
        break
      case 'payload':
        this.#payloadText = this.#text.slice(start, end)
        break
      case 'ordering_key':
        this.#orderingKey = this.#string(start, end)
        break
      case 'created_at':
        this.#createdAtMs = Date.parse(this.#text.slice(start + 1, end - 1))
        break
      case 'lease_token':
        this.leaseToken = this.#string(start, end) ?? ''
        break
      case 'attempt':
        this.attempt = Number(this.#text.slice(start, end))
        break
      case 'retry_count':
        this.failures = Number(this.#text.slice(start, end))
        break
      case 'suspect':
        this.suspect = this.#text.charCodeAt(start) === letterT
        break
      case 'status':
      case 'updated_at':
      case 'next_retry_at':
      case 'lease_expires_at':
      case 'subscription':
        break
      default:
        if (this.#text.charCodeAt(start) !== letterN) this.#keep(key, start, end)
    }
  }

  over(): void {
    const core = {
      id: this.#id,
      type: this.#type,
      payloadText: this.#payloadText,
      orderingKey: this.#orderingKey,
      createdAtMs: this.#createdAtMs,
    }
    this.event = this.#rare === undefined ? storedEvent(core) : storedEvent(core, rareFields(this.#rare))
    this.#take(this)
    this.#type = null
    this.#orderingKey = null
    this.suspect = false
    this.#rare = undefined
  }

  #keep(key: string, start: number, end: number): void {
    this.#rare ??= {}
    const isText = this.#text.charCodeAt(start) === quote
    this.#rare[key] = isText ? this.#string(start, end) : JSON.parse(this.#text.slice(start, end))
  }

  #string(start: number, end: number): string | null {
    if (this.#text.charCodeAt(start) === letterN) return null
    const plain = this.#text.slice(start + 1, end - 1)
    return plain.includes('\\') ? (JSON.parse(this.#text.slice(start, end)) as string) : plain
  }
}

const quote = 34
const letterN = 110
const letterT = 116
const noEvent = storedEvent({ id: 0, type: null, payloadText: 'null', orderingKey: null, createdAtMs: 0 })
