import { createSecretKey, type KeyObject } from 'node:crypto'
import { secretBytes } from '../receive/signature.ts'
import type { Endpoint, SealedSecret } from './endpoint-rows.ts'
import { OpenedSecrets } from './opened-secrets.ts'
import type { Vault } from './vault.ts'

/** What is secret of endpoints, opened: what requests are signed with, and headers that nobody is shown. */
export class EndpointSecrets {
  readonly #keys: OpenedSecrets<KeyObject>
  readonly #headers: OpenedSecrets<string>

  constructor(vault: Vault, trouble: (error: unknown) => void) {
    this.#keys = new OpenedSecrets(vault, toKey, trouble)
    this.#headers = new OpenedSecrets(vault, (value) => value, trouble)
  }

  /** The newest first; those that cannot be opened are left out. */
  keysOf(secrets: readonly SealedSecret[]): KeyObject[] {
    return secrets.flatMap((secret) => this.#keys.get(secret) ?? [])
  }

  /** All that are sent, with their values; undefined if some value cannot be opened. */
  headersOf({
    headers,
    sealedHeaders,
  }: Pick<Endpoint, 'headers' | 'sealedHeaders'>): Record<string, string> | undefined {
    const all = new Map(Object.entries(headers))
    for (const sealed of sealedHeaders) all.set(sealed.name, this.#headers.get(sealed) ?? null)
    const isWhole = [...all.values()].every((value) => value !== null)
    return isWhole ? (Object.fromEntries(all) as Record<string, string>) : undefined
  }

  /** Forgets all that these do not have. */
  keepOnly(endpoints: readonly Pick<Endpoint, 'secrets' | 'sealedHeaders'>[]): void {
    this.#keys.keepOnly(endpoints.flatMap(({ secrets }) => secrets))
    this.#headers.keepOnly(endpoints.flatMap(({ sealedHeaders }) => sealedHeaders))
  }
}

function toKey(secret: string): KeyObject | undefined {
  const bytes = secretBytes(secret)
  return bytes && createSecretKey(bytes)
}
