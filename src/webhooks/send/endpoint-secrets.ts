import { createSecretKey, type KeyObject } from 'node:crypto'
import { secretBytes } from '../receive/signature.ts'
import type { Endpoint, SealedSecret } from './endpoint-rows.ts'
import type { Vault } from './vault.ts'

/** The opened secrets of endpoints: keys that sign requests, and values of hidden headers. */
export class EndpointSecrets {
  readonly #keys: OpenedSecrets<KeyObject>
  readonly #headers: OpenedSecrets<string>

  constructor(vault: Vault, trouble: (error: unknown) => void) {
    this.#keys = new OpenedSecrets(vault, toKey, trouble)
    this.#headers = new OpenedSecrets(vault, (value) => value, trouble)
  }

  /** The newest first. Secrets that do not open are left out. */
  keysOf(secrets: readonly SealedSecret[]): KeyObject[] {
    return secrets.flatMap((secret) => this.#keys.get(secret) ?? [])
  }

  /** All headers that are sent, with their values; undefined if a value does not open. */
  headersOf({
    headers,
    sealedHeaders,
  }: Pick<Endpoint, 'headers' | 'sealedHeaders'>): Record<string, string> | undefined {
    const all = new Map(Object.entries(headers))
    for (const sealed of sealedHeaders) all.set(sealed.name, this.#headers.get(sealed) ?? null)
    const isWhole = [...all.values()].every((value) => value !== null)
    return isWhole ? (Object.fromEntries(all) as Record<string, string>) : undefined
  }

  /** Forgets the secrets of all other endpoints. */
  keepOnly(endpoints: readonly Pick<Endpoint, 'secrets' | 'sealedHeaders'>[]): void {
    this.#keys.keepOnly(endpoints.flatMap(({ secrets }) => secrets))
    this.#headers.keepOnly(endpoints.flatMap(({ sealedHeaders }) => sealedHeaders))
  }
}

/** Opens each secret once, not for every request. */
class OpenedSecrets<Value> {
  readonly #vault: Vault
  readonly #read: (secret: string) => Value | undefined
  readonly #trouble: (error: unknown) => void
  readonly #opened = new Map<string, Value | undefined>()

  constructor(vault: Vault, read: (secret: string) => Value | undefined, trouble: (error: unknown) => void) {
    this.#vault = vault
    this.#read = read
    this.#trouble = trouble
  }

  /** Undefined: the secret does not open. */
  get({ id, sealed }: SealedSecret): Value | undefined {
    if (!this.#opened.has(id)) this.#opened.set(id, this.#open(id, sealed))
    return this.#opened.get(id)
  }

  keepOnly(secrets: readonly SealedSecret[]): void {
    const kept = new Set(secrets.map(({ id }) => id))
    for (const id of this.#opened.keys()) if (!kept.has(id)) this.#opened.delete(id)
  }

  #open(id: string, sealed: string): Value | undefined {
    try {
      return this.#read(this.#vault.open(sealed, id))
    } catch (error) {
      this.#trouble(error)
      return undefined
    }
  }
}

function toKey(secret: string): KeyObject | undefined {
  const bytes = secretBytes(secret)
  return bytes && createSecretKey(bytes)
}
