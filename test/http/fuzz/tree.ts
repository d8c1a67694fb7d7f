/**
 * A body before it is written: JSON values, exact texts, and slots. A slot stands for something that an earlier answer
 * gave, and is filled when the request is sent.
 */
export type Tree =
  | null
  | boolean
  | number
  | string
  | Slot
  | Exact
  | readonly Tree[]
  | { readonly [name: string]: Tree }

/** Text that is written as it is, whether it is JSON or not. */
export class Exact {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

/** A name that comes twice, which no parser tells of. */
export class Twice extends Exact {}

export type SlotKind =
  | 'event'
  | 'lease event'
  | 'lease token'
  | 'lease worker'
  | 'worker'
  | 'subscriber'
  | 'replay'
  | 'name'
  | 'cursor'
  | 'delivery'
  | 'dead letter'

/** The same kind and pick give the same thing; those of one lease belong together. */
export class Slot {
  readonly kind: SlotKind
  readonly pick: number

  constructor(kind: SlotKind, pick: number) {
    this.kind = kind
    this.pick = pick
  }
}

type Members = readonly (readonly [name: string, value: Tree])[]

/** Slots filled in. */
export function fill(tree: Tree, look: (slot: Slot) => string | number): Tree {
  if (tree instanceof Slot) return look(tree)
  if (typeof tree !== 'object' || tree === null || tree instanceof Exact) return tree
  if (Array.isArray(tree)) return tree.map((one: Tree) => fill(one, look))
  return fromMembers(membersOf(tree).map(([name, value]) => [name, fill(value, look)]))
}

/** JSON text, but for what exact texts make of it. */
export function write(tree: Tree): string {
  if (tree instanceof Exact) return tree.text
  if (tree instanceof Slot) throw new Error(`The slot ${tree.kind} was not filled`)
  if (Array.isArray(tree)) return `[${tree.map(write).join(',')}]`
  if (typeof tree !== 'object' || tree === null) return JSON.stringify(tree)
  return `{${membersOf(tree)
    .map(([name, value]) => `${JSON.stringify(name)}:${write(value)}`)
    .join(',')}}`
}

export function isRecord(tree: Tree | undefined): tree is { readonly [name: string]: Tree } {
  return typeof tree === 'object' && tree !== null && !Array.isArray(tree) && !isLeaf(tree)
}

function isLeaf(tree: object): boolean {
  return tree instanceof Slot || tree instanceof Exact
}

export function membersOf(tree: Tree): Members {
  return isRecord(tree) ? Object.entries(tree) : []
}

/** Defined, not assigned: a member called `__proto__` is one like any other. */
export function fromMembers(members: Members): Tree {
  return Object.fromEntries(members)
}

export function someIn(tree: Tree, test: (tree: Tree) => boolean): boolean {
  if (test(tree)) return true
  if (Array.isArray(tree)) return tree.some((one: Tree) => someIn(one, test))
  return membersOf(tree).some(([, value]) => someIn(value, test))
}
