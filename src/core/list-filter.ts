import { checkOptions } from '../domain/known-names.ts'
import type { Term } from '../domain/list-terms.ts'
import { type Paging, pagingOptions } from './paging.ts'

/** What each field of a filter stands for. It throws if the value cannot be one of the field. */
export type FilterFields<Filter extends Paging> = {
  readonly [Field in Exclude<keyof Filter, keyof Paging>]-?: (value: NonNullable<Filter[Field]>) => Term[]
}

/** Checks a filter, and says the same in terms. */
export function termsOf<Filter extends Paging>(
  filter: Filter,
  fields: FilterFields<Filter>,
  whose: string,
): Term[] {
  checkOptions(filter, { ...pagingOptions, ...fields }, whose)
  const known = fields as Readonly<Record<string, (value: unknown) => Term[]>>
  return Object.entries(known).flatMap(([field, terms]) => {
    const value = filter[field as keyof Filter]
    return value === undefined ? [] : terms(value)
  })
}
