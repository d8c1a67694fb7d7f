/** The members that have a value: optional fields of a request as options of the hub, which take no undefined. */
export function given<Members extends object>(
  members: Members,
): { [Name in keyof Members]?: NonNullable<Members[Name]> } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value != null)) as ReturnType<
    typeof given<Members>
  >
}

/** A time in a body, which its schema has checked. */
export function dateOf(text: string | undefined): Date | undefined {
  return text === undefined ? undefined : new Date(text)
}
