import type { ServerConfig } from '../config.ts'
import { openPosthorn } from '../create.ts'
import { PosthornError } from '../errors.ts'
import { isLocalName } from '../http/gate.ts'
import { anyKeys } from '../keys/api-keys.ts'
import { KeyRing } from '../keys/key-ring.ts'
import type { Logger } from '../observe/log.ts'
import { type Api, startApi } from './api.ts'

export interface Serving {
  /** Undefined without the role `api`. */
  readonly port: number | undefined
  readonly hasKeys: boolean
  /** Where the data lives and how durable it is. */
  readonly store: string
  /** Finishes requests and attempts under way, and closes the database. */
  stop(): Promise<void>
}

/** Starts what the roles ask for. If a part fails to start, those before it are stopped. */
export async function startServing(config: ServerConfig, log: Logger): Promise<Serving> {
  const { adminKey, roles, upkeep, dispatcher } = config
  // The hub reads its other options from the environment, like `config`.
  const { posthorn: hub, db } = await openPosthorn({ log, upkeep, dispatcher })
  let keys: KeyRing | undefined
  let api: Api | undefined
  const stop = async () => {
    await api?.stop()
    await keys?.stop()
    await hub.stop()
  }
  try {
    const trouble = (error: unknown, doing: string) =>
      log.error({ err: error, doing }, 'Background task failed')
    keys = new KeyRing({ db, adminKey, trouble })
    const hasKeys = adminKey !== undefined || (await anyKeys(db))
    if (roles.includes('api')) checkAddress(config.host, hasKeys)
    await hub.start()
    if (roles.includes('api')) api = await startApi({ hub, keys, log, address: config })
    return { port: api?.port, hasKeys, store: hub.describe(), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Without keys, everybody who reaches the server may do everything. Only this machine may reach it then. */
function checkAddress(host: string, hasKeys: boolean): void {
  if (!hasKeys && !isLocalName(host)) throw new PosthornError('BIND_REFUSED', { host })
}
