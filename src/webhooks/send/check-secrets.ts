import type { Database } from '../../db/database.ts'
import { anySecrets, outdatedSecrets, resealSecret, type SealedSecret } from './endpoint-rows.ts'
import type { Vault } from './vault.ts'

const checkedMax = 100
const resealedMax = 500

/**
 * Whether secrets can be opened, before anything is signed. One that cannot is told when it is needed; if none can, the
 * key is the wrong one, and nothing should begin with it. What was sealed with an older key is sealed with the newest.
 */
export async function checkSecrets(db: Database, vault: Vault): Promise<void> {
  const secrets = await anySecrets(db, checkedMax)
  const failures = secrets
    .map((secret) => failureOf(vault, secret))
    .filter((failure) => failure !== undefined)
  if (secrets.length > 0 && failures.length === secrets.length) throw failures[0]
  await resealSecrets(db, vault)
}

/** Throws SECRET_KEY_WRONG if the last secret cannot be opened: what is sealed beside it would be no use to others. */
export async function checkNewest(db: Database, vault: Vault): Promise<void> {
  for (const secret of await anySecrets(db, 1)) vault.open(secret.sealed, secret.id)
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
    const secrets: SealedSecret[] = await outdatedSecrets(db, {
      prefix: vault.prefix,
      after,
      secretsMax: resealedMax,
    })
    for (const secret of secrets) {
      const { id, sealed } = secret
      if (failureOf(vault, secret) !== undefined) continue
      await resealSecret(db, { id, sealed: vault.seal(vault.open(sealed, id), id), before: sealed })
    }
    if (secrets.length < resealedMax) return
    after = (secrets.at(-1) as SealedSecret).id
  }
}
