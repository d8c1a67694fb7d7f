import { userInfo } from 'node:os'

/** Who runs the command, for the admin log. A container may run as a user without a name. */
export function actor(): string {
  try {
    return `cli:${userInfo().username}`
  } catch {
    return `cli:${process.getuid?.() ?? 'unknown'}`
  }
}
