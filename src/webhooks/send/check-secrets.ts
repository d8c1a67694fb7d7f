import type { Database } from '../../db/database.ts'
import { newestSecrets, type SealedSecret } from './endpoint-rows.ts'
import { outdatedSecrets, resealSecret } from './endpoint-statements.ts'
import type { Vault } from './vault.ts'

const checkedMax = 100
const resealedMax = 500

/**
 * Checks at the start whether the vault opens the stored secrets. A single secret that does not open is reported when it is
 * needed; if none opens, the key is wrong, and the start fails. Then seals with the newest key what an older key sealed.
 */
export async function checkSecrets(db: Database, vault: Vault): Promise<void> {
  const secrets = await newestSecrets(db, checkedMax)
  const failures = secrets
    .map((secret) => failureOf(vault, secret))
    .filter((failure) => failure !== undefined)
  if (secrets.length > 0 && failures.length === secrets.length) throw failures[0]
  await resealSecrets(db, vault)
}

/** Throws SECRET_KEY_WRONG if the newest secret does not open: other processes could not open what this vault seals. */
export async function checkNewest(db: Database, vault: Vault): Promise<void> {
  for (const secret of await newestSecrets(db, 1)) vault.open(secret.sealed, secret.id)
}

function failureOf(vault: Vault, { id, sealed }: SealedSecret): unknown {
  try {
    vault.open(sealed, id)
    return undefined
  } catch (error) {
    return error
  }
}

async function resealSecrets(db: Database, vault: Vault): Promise<void> {
  let after: string | null = null
  for (;;) {
    const values: unknown[] = [vault.prefix, after, resealedMax]
    const { rows: secrets } = await db.query<SealedSecret>(outdatedSecrets(db).text, values)
    for (const secret of secrets) {
      const { id, sealed } = secret
      if (failureOf(vault, secret) !== undefined) continue
      await db.run(resealSecret(db), [id, vault.seal(vault.open(sealed, id), id), sealed])
    }
    if (secrets.length < resealedMax) return
    after = (secrets.at(-1) as SealedSecret).id
  }
}
