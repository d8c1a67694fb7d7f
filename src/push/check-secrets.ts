import type { Database } from '../db/database.ts'
import type { Vault } from '../dispatch/vault.ts'
import { anySecrets, resealSecret } from '../operations/endpoints.ts'

const secretsMax = 10_000

/**
 * Whether secrets can be opened, before anything is signed. One that cannot is told when it is needed; if none can, the
 * key is the wrong one, and nothing should begin with it. What was sealed with an older key is sealed with the newest.
 */
export async function checkSecrets(db: Database, vault: Vault): Promise<void> {
  const secrets = await anySecrets(db, secretsMax)
  const failures: unknown[] = []
  for (const { id, sealed } of secrets) {
    try {
      const secret = vault.open(sealed, id)
      if (vault.isCurrent(sealed)) continue
      await resealSecret(db, { id, sealed: vault.seal(secret, id), before: sealed })
    } catch (error) {
      failures.push(error)
    }
  }
  if (failures.length > 0 && failures.length === secrets.length) throw failures[0]
}
