import { expect, test } from 'vitest'
import { Hold } from '../../src/memory/hold.ts'

test('a holder whose claim was not renewed for as long as it lasts gives nothing out, until it is renewed', () => {
  const hold = new Hold(1_000)
  expect(hold.isOurs(5_999)).toBe(true)
  expect(hold.isOurs(6_000)).toBe(false)
  hold.kept(5_900)
  expect(hold.isOurs(6_000)).toBe(true)
  expect(hold.isOurs(10_900)).toBe(false)
})

test('a renewal whose answer comes late does not shorten a claim that was renewed since', () => {
  const hold = new Hold(1_000)
  hold.kept(4_000)
  hold.kept(2_000)
  expect(hold.isOurs(8_999)).toBe(true)
})

test('what is closed is not given out, and what is lost stays lost', () => {
  const hold = new Hold(1_000)
  hold.close()
  expect([hold.isOurs(1_000), hold.isLost]).toEqual([false, false])
  hold.lose()
  hold.close()
  expect([hold.isOurs(1_000), hold.isLost]).toEqual([false, true])
})
