export interface PlantedBug {
  readonly before?: string
}

export interface PlantedStatement {
  readonly name: string
  readonly text: string
}

export function findBug(name: string): PlantedBug
export function sqlOf(
  bug: PlantedBug,
  place: { readonly schema: string; readonly migrations: readonly { readonly text: string }[] },
): string[]
export function changeStatement(
  bug: PlantedBug,
  statement: PlantedStatement,
  place: { readonly schema: string; readonly fragment: string },
): PlantedStatement
