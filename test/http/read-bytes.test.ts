import { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { readBytes } from '../../src/http/read-bytes.ts'

test('a body that comes in chunks of one byte keeps none of them in memory', async () => {
  const body = new IncomingMessage(new Socket())
  const read = readBytes(body, { bytesMax: 1_000_000, begin: () => undefined, hold: () => undefined })
  const chunks = Array.from({ length: 100_000 }, (_, no) => giveByte(body, no))
  await turn()
  collectGarbage()
  expect(chunks.filter((chunk) => chunk.deref() !== undefined).length).toBeLessThan(100)
  body.emit('end')
  expect(await read).toEqual(Buffer.from(Array.from({ length: 100_000 }, (_, no) => no % 256)))
})

test('a body is the same in whatever chunks it comes', async () => {
  const whole = Buffer.from(Array.from({ length: 100_000 }, (_, no) => (no * 31) % 251))
  for (const sizes of [[100_000], [1, 99_999], [99_999, 1], [7, 1_000, 3, 50_000], [65_536]]) {
    const body = new IncomingMessage(new Socket())
    const read = readBytes(body, { bytesMax: 100_000, begin: () => undefined, hold: () => undefined })
    for (let at = 0, no = 0; at < whole.length; no++) {
      const size = sizes[no % sizes.length] as number
      body.emit('data', whole.subarray(at, at + size))
      at += size
    }
    body.emit('end')
    expect((await read).equals(whole)).toBe(true)
  }
})

/** As Node gives it: each chunk in a buffer of its own. */
function giveByte(body: IncomingMessage, byte: number): WeakRef<Buffer> {
  const chunk = Buffer.from(Uint8Array.of(byte).buffer)
  body.emit('data', chunk)
  return new WeakRef(chunk)
}

function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  collect()
}
