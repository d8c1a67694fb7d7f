import { test } from 'vitest'
import { useEngines } from '../support/engine.ts'
import { endDeletedBacklog } from './deleted-backlog.ts'

const openEngine = useEngines('cancel_long')

test('the backlog of a deleted subscription ends, also if it is very large', async () => {
  await endDeletedBacklog(await openEngine(), { plain: 100_000, inLanes: 20_000 })
})
