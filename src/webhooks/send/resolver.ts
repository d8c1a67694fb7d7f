import { promises as dns } from 'node:dns'
import { isIP } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { within } from '../../domain/within.ts'
import type { AddressPolicy, Verdict } from './address-policy.ts'
import { blockedMessage, SendError } from './send-failure.ts'

export interface ResolverOptions {
  readonly policy: AddressPolicy
  /** `1.1.1.1` or `127.0.0.1:5353`. Default: the machine's name servers. */
  readonly servers?: readonly string[]
  /** How long one name may take in all. */
  readonly budgetMs?: number
  /** Reports refused addresses for the operator's log; the owner of the name does not learn them. */
  readonly onBlocked?: (found: { host: string; address: string; verdict: Verdict }) => void
  /** The machine's own lookup, which reads the hosts file, too. */
  readonly lookup?: (host: string) => Promise<readonly string[]>
  readonly now?: () => number
}

interface Answer {
  readonly addresses: readonly string[]
  /** How long the answer may be remembered. */
  readonly freshMs: number
}

const positiveMsMax = 300_000
const negativeMs = 30_000
const rememberedMax = 1000
/** When one family has answered, the other gets this much longer: some servers never answer for IPv6. */
const otherFamilyMs = 300
const loopback = ['127.0.0.1', '::1']

/**
 * Resolves names to addresses that may be dialled. It asks name servers itself: the system's lookup blocks one of four threads
 * for as long as a slow server takes, and appends search domains.
 */
export class Resolver {
  readonly #options: ResolverOptions
  readonly #budgetMs: number
  readonly #now: () => number
  readonly #servers: dns.Resolver
  readonly #remembered = new Map<string, Answer & { until: number }>()
  readonly #pending = new Map<string, Promise<readonly string[]>>()

  constructor(options: ResolverOptions) {
    this.#options = options
    this.#budgetMs = options.budgetMs ?? 5000
    this.#now = options.now ?? (() => performance.now())
    this.#servers = new dns.Resolver({ timeout: Math.ceil(this.#budgetMs / 3), tries: 2 })
    if (options.servers !== undefined) this.#servers.setServers(options.servers)
  }

  /** At least one address, and only allowed ones. Throws SendError: `dns` or `blocked`. */
  async resolve(host: string): Promise<string[]> {
    const found = await this.#find(host.replace(/^\[|\]$/g, ''))
    const allowed = found.filter((address) => this.#isAllowed(host, address))
    if (allowed.length === 0) throw new SendError('blocked', blockedMessage)
    return allowed
  }

  /** Cancels open questions, which would keep the process alive. */
  close(): void {
    this.#servers.cancel()
  }

  #isAllowed(host: string, address: string): boolean {
    const verdict = this.#options.policy.judge(address)
    if (verdict !== 'allowed') this.#options.onBlocked?.({ host, address, verdict })
    return verdict === 'allowed'
  }

  async #find(host: string): Promise<readonly string[]> {
    if (isIP(host) !== 0) return [host]
    const name = host.toLowerCase().replace(/\.$/, '')
    if (name === 'localhost' || name.endsWith('.localhost')) return loopback
    const addresses = this.#recall(name) ?? (await this.#askOnce(name))
    if (addresses.length === 0) throw new SendError('dns', `${name} has no address`)
    return addresses
  }

  #recall(name: string): readonly string[] | null {
    const remembered = this.#remembered.get(name)
    if (remembered !== undefined && remembered.until > this.#now()) return remembered.addresses
    this.#remembered.delete(name)
    return null
  }

  /** Connections that are opened together share one question. */
  #askOnce(name: string): Promise<readonly string[]> {
    const asked = this.#pending.get(name) ?? this.#ask(name).finally(() => this.#pending.delete(name))
    this.#pending.set(name, asked)
    return asked
  }

  async #ask(name: string): Promise<readonly string[]> {
    const tooLate = new SendError('dns', `${name} was not resolved within ${this.#budgetMs} ms`)
    const answer = await within(this.#query(name), this.#budgetMs, tooLate)
    if (answer.freshMs > 0) this.#remember(name, answer)
    return answer.addresses
  }

  async #query(name: string): Promise<Answer> {
    const asked = await this.#queryServers(name)
    const isFound = !(asked instanceof Error) && asked.addresses.length > 0
    if (!isFound && this.#options.policy.hasAllowances) {
      const addresses = await (this.#options.lookup ?? systemLookup)(name).catch(() => [])
      if (addresses.length > 0) return { addresses, freshMs: negativeMs }
    }
    if (asked instanceof Error) throw new SendError('dns', asked.message, { cause: asked })
    return asked
  }

  /** Asks for both families. A failure of one does not matter if the other has an address. */
  async #queryServers(name: string): Promise<Answer | Error> {
    const answers: Family[] = []
    const asked = [
      collected(this.#servers.resolve4(name, { ttl: true }), answers),
      collected(this.#servers.resolve6(name, { ttl: true }), answers),
    ]
    await Promise.race([
      Promise.all(asked),
      Promise.any(asked.map(found)).then(otherFamily, () => Promise.all(asked)),
    ])
    const records = answers.flatMap((answer) => (answer instanceof Error ? [] : answer))
    if (records.length === 0) {
      return answers.find((answer) => answer instanceof Error) ?? { addresses: [], freshMs: negativeMs }
    }
    const seconds = Math.min(...records.map(({ ttl }) => ttl))
    return {
      addresses: records.map(({ address }) => address).sort((a, b) => isIP(a) - isIP(b)),
      freshMs: Math.min(seconds * 1000, positiveMsMax),
    }
  }

  #remember(name: string, answer: Answer): void {
    const [oldest] = this.#remembered.keys()
    if (oldest !== undefined && this.#remembered.size >= rememberedMax) this.#remembered.delete(oldest)
    this.#remembered.set(name, { ...answer, until: this.#now() + answer.freshMs })
  }
}

type Family = readonly { address: string; ttl: number }[] | Error

/** "No such name" and "no address of this family" are answers, not failures. */
async function collected(asked: Promise<readonly { address: string; ttl: number }[]>, into: Family[]) {
  const answer = await asked.catch((error: NodeJS.ErrnoException) =>
    error.code === 'ENOTFOUND' || error.code === 'ENODATA' ? [] : error,
  )
  into.push(answer)
  return answer
}

async function found(asked: Promise<Family>): Promise<void> {
  const answer = await asked
  if (answer instanceof Error || answer.length === 0) throw new Error('nothing found')
}

function otherFamily(): Promise<void> {
  return delay(otherFamilyMs, undefined, { ref: false })
}

async function systemLookup(host: string): Promise<string[]> {
  const found = await dns.lookup(host, { all: true, order: 'ipv4first' })
  return found.map(({ address }) => address)
}
