import { Batcher } from '../core/batcher.ts'
import type { Database } from '../db/database.ts'
import { hashSecret, type KeyHolder, type KeyParts, matches, parseKey } from '../domain/api-key.ts'
import { badOption } from '../domain/bad-value.ts'
import { integer } from '../domain/subscription.ts'
import { PosthornError } from '../errors.ts'
import { anyKeys, findKeys, type StoredKey, touchKeys } from './api-keys.ts'

export interface KeyRingParts {
  readonly db: Database
  /** POSTHORN_ADMIN_KEY: a key that is not in the database, to create the first keys with. */
  readonly adminKey: string | undefined
  /** How long a key read from the database may be used. Default 2,000. */
  readonly freshMs?: number
  readonly now?: () => number
  readonly trouble?: (error: unknown, doing: string) => void
}

/** A key as the database had it, and when it was asked. */
interface Reading {
  readonly askedAt: number
  readonly key: StoredKey | undefined
}

const keysMax = 10_000
/** A revoked key must stop working within this time on every node, so a read that took longer does not count. */
const revokedWithinMs = 5_000
const writeMs = 10_000
const adminHolder: KeyHolder = Object.freeze({
  id: 'admin',
  name: 'admin',
  scopes: Object.freeze(['admin'] as const),
  ratePerSecond: null,
})

/**
 * Checks the API key of every call. It asks the database about each key at most once in `freshMs`, so a revocation takes effect
 * everywhere within that time without a notification. Keys that are looked up at the same time share one statement, so that
 * a flood of invented keys costs only a few statements.
 */
export class KeyRing {
  readonly #db: Database
  readonly #freshMs: number
  readonly #now: () => number
  readonly #trouble: (error: unknown, doing: string) => void
  readonly #adminDigest: Buffer | undefined
  readonly #reads: Batcher<string, Reading>
  readonly #reading = new Map<string, Promise<Reading>>()
  /** Known and unknown ids are kept apart, so that invented ids cannot push out keys in use. */
  readonly #known = new Map<string, Reading>()
  readonly #unknown = new Map<string, Reading>()
  /** True once a key has existed; it never becomes false again. */
  #closed = false
  #openAskedAt = Number.NEGATIVE_INFINITY
  #asking: Promise<void> | undefined
  #used = new Set<string>()
  #timer: NodeJS.Timeout | undefined
  #writing: Promise<void> = Promise.resolve()
  #stopped = false

  constructor({ db, adminKey, freshMs = 2_000, now, trouble }: KeyRingParts) {
    this.#db = db
    this.#freshMs = integer('freshMs', freshMs, 0, revokedWithinMs)
    this.#now = now ?? (() => performance.now())
    this.#trouble = trouble ?? (() => undefined)
    this.#adminDigest = adminKey === undefined ? undefined : hashSecret(checkAdminKey(adminKey))
    this.#reads = new Batcher({ flush: (ids) => this.#read(ids), itemsMax: 1_000, flushesMax: 2 })
  }

  /**
   * Checks the header `Authorization`. `open`: no key has ever existed, so nobody needs one. A key that is
   * revoked or expired is `wrong`. Throws if the database cannot be asked.
   */
  async check(authorization: string | undefined): Promise<KeyHolder | 'missing' | 'wrong' | 'open'> {
    if (this.#adminDigest === undefined && (await this.#isOpen())) return 'open'
    if (authorization === undefined || authorization.trim() === '') return 'missing'
    if (!/^bearer /i.test(authorization)) return 'wrong'
    const text = authorization.slice('bearer '.length).trim()
    if (this.#isAdminKey(text)) return adminHolder
    const parts = parseKey(text)
    return parts === undefined ? 'wrong' : this.#checkKey(parts)
  }

  /** Stores which keys were used lately. Later checks still work, but store nothing. May be called twice. */
  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#timer)
    this.#timer = undefined
    await this.#reads.settled()
    await this.#write()
  }

  async #isOpen(): Promise<boolean> {
    if (this.#closed) return false
    if (this.#now() - this.#openAskedAt >= this.#freshMs) {
      this.#asking ??= this.#askOpen().finally(() => {
        this.#asking = undefined
      })
      await this.#asking
    }
    return !this.#closed
  }

  async #askOpen(): Promise<void> {
    const askedAt = this.#now()
    this.#closed = await anyKeys(this.#db)
    this.#openAskedAt = askedAt
  }

  #isAdminKey(text: string): boolean {
    return this.#adminDigest !== undefined && matches(this.#adminDigest, text)
  }

  async #checkKey({ id, secret }: KeyParts): Promise<KeyHolder | 'wrong'> {
    const key = await this.#lookUp(id)
    if (key === undefined || !matches(key.hash, secret) || key.state !== 'active') return 'wrong'
    this.#note(id)
    const { name, scopes, ratePerSecond } = key
    return { id, name, scopes, ratePerSecond }
  }

  async #lookUp(id: string): Promise<StoredKey | undefined> {
    const remembered = this.#known.get(id) ?? this.#unknown.get(id)
    if (remembered !== undefined && this.#now() - remembered.askedAt < this.#freshMs) return remembered.key
    let reading = this.#reading.get(id)
    if (reading === undefined) {
      reading = this.#reads.add(id).finally(() => this.#reading.delete(id))
      this.#reading.set(id, reading)
    }
    const { askedAt, key } = await reading
    const tookMs = this.#now() - askedAt
    if (tookMs <= revokedWithinMs) return key
    throw new PosthornError('DATABASE_UNAVAILABLE', {
      reason: `it took ${Math.round(tookMs)} ms to read a key`,
    })
  }

  async #read(ids: readonly string[]): Promise<Reading[]> {
    const askedAt = this.#now()
    const found = await findKeys(this.#db, ids)
    return ids.map((id) => {
      const reading = { askedAt, key: found.get(id) }
      this.#known.delete(id)
      this.#unknown.delete(id)
      remember(reading.key === undefined ? this.#unknown : this.#known, id, reading)
      return reading
    })
  }

  /** Notes at most `keysMax` keys per interval: `lastUsedAt` is a hint, and each note costs memory. */
  #note(id: string): void {
    if (this.#used.size < keysMax) this.#used.add(id)
    this.#writeLater()
  }

  #writeLater(): void {
    if (this.#stopped) return
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      void this.#write()
    }, writeMs)
  }

  /** One at a time; never rejects. */
  #write(): Promise<void> {
    this.#writing = this.#writing.then(async () => {
      const used = this.#used
      if (used.size === 0) return
      this.#used = new Set()
      try {
        await touchKeys(this.#db, [...used])
      } catch (error) {
        this.#trouble(error, 'storing when API keys were used')
        for (const id of used) this.#note(id)
      }
    })
    return this.#writing
  }
}

/** A header carries only these characters, and without a minimum somebody would use `admin`. The error never shows the key. */
export function checkAdminKey(key: string): string {
  if (key.length >= 16 && key.length <= 1_000 && /^[!-~]([ -~]*[!-~])?$/.test(key)) return key
  const expected = '16 to 1000 printable ASCII characters'
  throw badOption('POSTHORN_ADMIN_KEY', expected, `${key.length} characters`)
}

/** Forgets the key that was read longest ago when there are too many. */
function remember(readings: Map<string, Reading>, id: string, reading: Reading): void {
  readings.set(id, reading)
  if (readings.size <= keysMax) return
  const [oldest] = readings.keys()
  readings.delete(oldest as string)
}
