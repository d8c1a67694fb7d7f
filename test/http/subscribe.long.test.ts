import { expect, test } from 'vitest'
import { useServers } from '../support/http.ts'
import { type Json, Pulling } from './pulling.ts'

const servers = useServers('subscribe_long')
const open = async () => new Pulling(await servers.open())

test('one call gets at most some 16 MB, and what is beyond that is there for the next', async () => {
  const pulling = await open()
  const payload = 'x'.repeat(1_000_000)
  const ids: number[] = []
  for (let call = 0; call < 2; call++) ids.push(...(await pulling.publishMany(20, { payload })))
  const leased: number[][] = []
  while (leased.flat().length < ids.length) {
    const { status, json } = await pulling.subscribe({ limit: 1000 })
    expect(status).toBe(200)
    leased.push(json.map((event: Json) => event.id))
    for (const { attempt } of json) expect(attempt).toBe(1)
  }
  expect(Math.max(...leased.map((call) => call.length))).toBe(17)
  expect(leased.flat().sort((a, b) => a - b)).toEqual(ids)
  expect((await pulling.subscribe({ limit: 1000 })).status).toBe(204)
})
