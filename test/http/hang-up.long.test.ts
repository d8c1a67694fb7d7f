import { afterEach, test, vi } from 'vitest'
import { useServers } from '../support/http.ts'
import { hangUpAsGiven } from './hanging-up.ts'
import { Pulling } from './pulling.ts'

const servers = useServers('hangup_long')
afterEach(() => vi.restoreAllMocks())

test('two hundred that hang up as they are given something: nothing is stuck, nothing is counted', async () => {
  await hangUpAsGiven(new Pulling(await servers.open()), 200)
})
