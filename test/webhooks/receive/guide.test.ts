import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const read = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8')

test('the code in the guide is the code that runs', () => {
  const blocks = [...read('docs/guides/receive-webhooks.md').matchAll(/```js\n(.*?)```/gs)]
  expect(blocks).toHaveLength(1)
  for (const [, code] of blocks) expect(read('examples/webhook-receiver.js')).toContain(code)
})
