import { networkInterfaces } from 'node:os'
import { type Address, type Cidr, contains, embedded4, parseAddress, parseCidr } from './cidr.ts'

export { parseCidr } from './cidr.ts'

/** Whether requests may go to an address. `metadata` is never allowed, whatever the operator sets. */
export type Verdict = 'allowed' | 'forbidden' | 'metadata'

/** Everything that is not a public host, and public addresses of a cloud's internal services. */
const forbidden = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
  '168.63.129.16/32',
  '2001::/23',
  '2001:db8::/32',
  '2002::/16',
  '3fff::/20',
].map(parseCidr)

/** Of IPv6 only global unicast is allowed, so that no spelling of an IPv4 address slips through. */
const global6 = parseCidr('2000::/3')

/** Where clouds give credentials to everyone who asks. */
const metadata = [
  '169.254.0.0/16',
  '100.100.100.200/32',
  '192.0.0.192/32',
  '168.63.129.16/32',
  'fe80::/10',
  'fd00:ec2::/32',
  'fd00:42::42/128',
  'fd20:ce::254/128',
].map(parseCidr)

const nat64 = parseCidr('64:ff9b::/96')

/** IPv6 networks whose addresses contain an IPv4 address: compatible, translated, NAT64, 6to4 and Teredo. */
const carriers: readonly { cidr: Cidr; inner: (value: bigint) => Address }[] = [
  { cidr: parseCidr('::/96'), inner: (value) => embedded4(value) },
  { cidr: parseCidr('::ffff:0:0:0/96'), inner: (value) => embedded4(value) },
  { cidr: nat64, inner: (value) => embedded4(value) },
  { cidr: parseCidr('64:ff9b:1::/48'), inner: (value) => embedded4(value) },
  { cidr: parseCidr('2002::/16'), inner: (value) => embedded4(value, 80n) },
  { cidr: parseCidr('2001::/32'), inner: (value) => embedded4(~value) },
]

/** Decides which addresses requests may go to. A private address must be allowed explicitly: `10.0.0.0/8, 127.0.0.1`. */
export class AddressPolicy {
  readonly #allowed: readonly Cidr[]
  readonly #own: readonly Cidr[]
  /** Some private addresses are allowed, so names that only this network knows may be used. */
  readonly hasAllowances: boolean

  /** `own`: addresses of this machine and its database. They may be public, and requests must not go to them. */
  constructor(allowed: readonly string[] = [], { own = [] }: { own?: readonly string[] } = {}) {
    this.#allowed = allowed.map(parseCidr)
    this.#own = own.map(parseCidr)
    this.hasAllowances = allowed.length > 0
  }

  judge(text: string): Verdict {
    const address = parseAddress(text)
    return address === null ? 'forbidden' : this.#judge(address)
  }

  #judge(address: Address): Verdict {
    const inner = carriers.find(({ cidr }) => contains(cidr, address))?.inner(address.value)
    if (isIn(metadata, address) || (inner !== undefined && isIn(metadata, inner))) return 'metadata'
    if (isIn(this.#allowed, address)) {
      // An operator who allows NAT64 wants to reach public hosts through it, not private hosts behind the gateway.
      return inner !== undefined && contains(nat64, address) ? this.#judge(inner) : 'allowed'
    }
    if (isIn(forbidden, address) || isIn(this.#own, address)) return 'forbidden'
    return address.version === 4 || contains(global6, address) ? 'allowed' : 'forbidden'
  }
}

/** The addresses of this machine's network interfaces. */
export function ownAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((cards = []) =>
    cards.map(({ address }) => address.replace(/%.*$/, '')),
  )
}

function isIn(cidrs: readonly Cidr[], address: Address): boolean {
  return cidrs.some((cidr) => contains(cidr, address))
}
