import { isIP } from 'node:net'
import { badOption } from '../../domain/bad-value.ts'

/** An IP address as a number, so that all spellings of an address are equal. */
export interface Address {
  readonly version: 4 | 6
  readonly value: bigint
}

export interface Cidr extends Address {
  readonly bits: number
}

const mapped = { version: 6, value: 0xffff_0000_0000n, bits: 96 } as const

/** Null: it is not an address. `::ffff:127.0.0.1` is 127.0.0.1, and so is `[::ffff:7f00:1]`. */
export function parseAddress(text: string): Address | null {
  const bare = text.replace(/^\[(.*)\]$/, '$1').replace(/%.*$/, '')
  const version = isIP(bare)
  if (version === 4) return { version: 4, value: numberOf(bare.split('.').map(Number), 8n) }
  if (version !== 6) return null
  const address: Address = { version: 6, value: numberOf(groupsOf(bare), 16n) }
  return contains(mapped, address) ? embedded4(address.value) : address
}

/** `10.0.0.0/8`, or one address. Throws BAD_OPTION. */
export function parseCidr(text: string): Cidr {
  return findCidr(text) ?? refuse('POSTHORN_ALLOW_CIDRS', text)
}

/** A list of networks, or a text with commas between them. Errors name the option by which it was set. */
export function readCidrs(option: string, value: string | readonly string[]): string[] {
  const list: unknown = typeof value === 'string' ? value.split(',') : value
  if (!Array.isArray(list)) return refuse(option, value)
  return list
    .map((cidr: unknown) => (typeof cidr === 'string' ? cidr.trim() : refuse(option, cidr)))
    .filter((cidr) => cidr !== '')
    .map((cidr) => (findCidr(cidr) === null ? refuse(option, cidr) : cidr))
}

/** Null: it is not a network. */
function findCidr(text: string): Cidr | null {
  const [, host = '', bitsText] = /^([^/%[\]]+)(?:\/(\d{1,3}))?$/.exec(text.trim()) ?? []
  const address = parseAddress(host)
  if (address === null) return null
  // A network of v4-mapped addresses is a network of IPv4 addresses.
  const skipped = isIP(host) === 6 && address.version === 4 ? mapped.bits : 0
  const width = address.version === 4 ? 32 : 128
  const bits = bitsText === undefined ? width : Number(bitsText) - skipped
  return bits < 0 || bits > width ? null : { ...address, bits }
}

function refuse(option: string, value: unknown): never {
  throw badOption(option, 'networks such as 10.0.0.0/8, separated by commas', value)
}

export function contains(cidr: Cidr, { version, value }: Address): boolean {
  const shift = BigInt((cidr.version === 4 ? 32 : 128) - cidr.bits)
  return version === cidr.version && value >> shift === cidr.value >> shift
}

/** The IPv4 address in the lowest 32 bits, or in the 32 bits above `shift`. */
export function embedded4(value: bigint, shift = 0n): Address {
  return { version: 4, value: (value >> shift) & 0xffff_ffffn }
}

/** The eight groups of an IPv6 address. A URL normalizes the spelling, with at most one `::`. */
function groupsOf(text: string): number[] {
  const spelled = new URL(`http://[${text}]`).hostname.slice(1, -1)
  const [head = [], tail = []] = spelled
    .split('::')
    .map((side) => (side === '' ? [] : side.split(':').map((group) => Number.parseInt(group, 16))))
  return [...head, ...Array<number>(8 - head.length - tail.length).fill(0), ...tail]
}

function numberOf(parts: readonly number[], width: bigint): bigint {
  return parts.reduce((value, part) => (value << width) | BigInt(part), 0n)
}
