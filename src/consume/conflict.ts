const causesMax = 5

/**
 * Whether a transaction failed because of a concurrent one, not because of its event: a serialization failure, a
 * deadlock, or a snapshot too old to complete in. Libraries wrap such errors, so causes are searched too; Prisma has codes of
 * its own and keeps the server's in `meta`.
 */
export function isConflict(error: unknown): boolean {
  try {
    return causesOf(error).some(saysConflict)
  } catch {
    // A handler can throw an object whose members throw when they are read.
    return false
  }
}

function causesOf(error: unknown): Error[] {
  const causes: Error[] = []
  for (let cause = error; cause instanceof Error && causes.length < causesMax; cause = cause.cause) {
    causes.push(cause)
  }
  return causes
}

function saysConflict(error: Error): boolean {
  const { code, meta } = error as { code?: unknown; meta?: { code?: unknown } }
  return conflictCodes.has(code) || conflictCodes.has(meta?.code)
}

const conflictCodes = new Set<unknown>(['STALE_SNAPSHOT', '40001', '40P01', 'P2034'])
