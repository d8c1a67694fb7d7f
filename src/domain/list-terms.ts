/** One thing that a list is asked for. All terms of a list must hold. */
export interface Term {
  readonly field: string
  readonly operator: TermOperator
  /** With `:` one of these must fit; the other operators compare with exactly one. */
  readonly values: readonly TermValue[]
  /** The term must not hold. What has no such field satisfies it. */
  readonly negated: boolean
  /** With the field `payload`: the keys and indexes that lead to the value. */
  readonly path?: readonly string[]
}

export type TermOperator = ':' | '>' | '>=' | '<' | '<='
export type TermValue = string | number | Date

export function anyOf(field: string, values: readonly TermValue[]): Term {
  return { field, operator: ':', values, negated: false }
}

export function compared(field: string, operator: TermOperator, value: TermValue): Term {
  return { field, operator, values: [value], negated: false }
}

/** The term that says which values a field may have, if there is one. */
export function choiceOf(terms: readonly Term[], field: string): readonly TermValue[] | undefined {
  return terms.find((term) => term.field === field && term.operator === ':' && !term.negated)?.values
}
