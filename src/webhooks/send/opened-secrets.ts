import type { SealedSecret } from './endpoint-rows.ts'
import type { Vault } from './vault.ts'

/** What secrets say: opened once, and not at every request. */
export class OpenedSecrets<Value> {
  readonly #vault: Vault
  readonly #read: (secret: string) => Value | undefined
  readonly #trouble: (error: unknown) => void
  readonly #opened = new Map<string, Value | undefined>()

  constructor(vault: Vault, read: (secret: string) => Value | undefined, trouble: (error: unknown) => void) {
    this.#vault = vault
    this.#read = read
    this.#trouble = trouble
  }

  /** Undefined: it cannot be opened. */
  get({ id, sealed }: SealedSecret): Value | undefined {
    if (!this.#opened.has(id)) this.#opened.set(id, this.#open(id, sealed))
    return this.#opened.get(id)
  }

  /** Forgets all others. */
  keepOnly(secrets: readonly SealedSecret[]): void {
    const here = new Set(secrets.map(({ id }) => id))
    for (const id of [...this.#opened.keys()].filter((id) => !here.has(id))) this.#opened.delete(id)
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
