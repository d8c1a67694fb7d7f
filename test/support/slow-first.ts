import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Folders and files that take long although they are short, by how their paths begin. */
const slow = [
  ...['test/chaos/', 'test/crash/', 'test/memory/moving-', 'test/simulation/', 'test/http/database-away'],
  ...['test/cli/', 'test/http/fuzz', 'test/failover/', 'test/db/embedded'],
]

/**
 * Files that take long begin first: the last to begin would keep one process busy while the others have nothing left to do.
 * In a fresh clone vitest knows of no earlier run, and goes by the size of files.
 */
export class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const rankOf = ({ moduleId }: TestSpecification) => {
      const rank = slow.findIndex((path) => moduleId.includes(`/${path}`))
      return rank < 0 ? slow.length : rank
    }
    return sorted.toSorted((a, b) => rankOf(a) - rankOf(b))
  }
}
