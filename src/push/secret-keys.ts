import { createSecretKey, type KeyObject } from 'node:crypto'
import type { Vault } from '../dispatch/vault.ts'
import type { SealedSecret } from '../operations/endpoints.ts'
import { secretBytes } from '../webhooks/signature.ts'

/** What requests are signed with: secrets that were opened once, and not at every request. */
export class SecretKeys {
  readonly #vault: Vault
  readonly #trouble: (error: unknown) => void
  readonly #opened = new Map<string, KeyObject | undefined>()

  constructor(vault: Vault, trouble: (error: unknown) => void) {
    this.#vault = vault
    this.#trouble = trouble
  }

  /** The newest first; those that cannot be opened are left out. */
  of({ secrets }: { secrets: readonly SealedSecret[] }): KeyObject[] {
    return secrets.flatMap((secret) => this.#key(secret) ?? [])
  }

  /** Forgets all others. */
  keepOnly(secrets: readonly SealedSecret[]): void {
    const here = new Set(secrets.map(({ id }) => id))
    for (const id of [...this.#opened.keys()].filter((id) => !here.has(id))) this.#opened.delete(id)
  }

  #key({ id, sealed }: SealedSecret): KeyObject | undefined {
    if (!this.#opened.has(id)) this.#opened.set(id, this.#open(id, sealed))
    return this.#opened.get(id)
  }

  #open(id: string, sealed: string): KeyObject | undefined {
    try {
      const bytes = secretBytes(this.#vault.open(sealed, id))
      return bytes && createSecretKey(bytes)
    } catch (error) {
      this.#trouble(error)
      return undefined
    }
  }
}
