/** What to look for, and what to put in its place. */
export type Change = readonly [found: string, put: string]

export interface PlantedBug {
  readonly before?: string
  readonly functions?: Readonly<Record<string, readonly Change[]>>
  readonly statements?: Readonly<Record<string, readonly Change[]>>
  readonly frozenOwner?: boolean
}

export interface PlantedStatement {
  readonly name: string
  readonly text: string
}

export const plantedBugs: Readonly<Record<string, PlantedBug>>
export function findBug(name: string): PlantedBug
export function sqlOf(
  bug: PlantedBug,
  place: { readonly schema: string; readonly migrations: readonly { readonly text: string }[] },
): string[]
export function changeStatement(
  bug: PlantedBug,
  statement: PlantedStatement,
  schema: string,
): PlantedStatement
export function outliveClaims(Hold: { readonly prototype: { isOurs(now: number): boolean } }): void
export function replaceOnce(text: string, changes: readonly Change[]): string
