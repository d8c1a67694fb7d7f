import { PosthornError } from '../../errors.ts'

/** The result of a call of `node:fs`; undefined if there is no such file, or if it fails with one of the other codes. */
export async function unlessMissing<T>(
  reading: Promise<T>,
  otherCodes: readonly string[] = [],
): Promise<T | undefined> {
  try {
    return await reading
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT' || otherCodes.includes(code)) return undefined
    throw error
  }
}

/** The code of a system error, such as ENOENT. */
export function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? ''
}

export function unusable(directory: string, reason: string, cause?: unknown): PosthornError {
  return new PosthornError(
    'DATA_DIRECTORY_UNUSABLE',
    { directory, reason },
    cause === undefined ? {} : { cause },
  )
}
