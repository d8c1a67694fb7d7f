import { expect, test } from 'vitest'
import { openApiDocument } from '../../../src/http/docs/openapi.ts'
import { apiRoutes } from '../../../src/http/routes/index.ts'
import type { Hub } from '../../../src/hub.ts'
import { createLogger } from '../../../src/observe/log.ts'
import { type TestServer, useServers } from '../../support/http.ts'
import { fuzz, type Target } from './fuzz.ts'

const adminKey = 'a key for fuzzing, long enough'
const routes = apiRoutes({} as Hub, { isDraining: () => false, version: '0.0.0' })
const document = openApiDocument(routes, { version: '0.0.0' })

interface Fuzzing {
  readonly requests: number
  readonly seed: number
  /** How often these answers must have come at least, or nothing was shown. */
  readonly vital: Readonly<Record<string, number>>
  /** How many payloads must have been compared. */
  readonly comparedMin: number
}

/** Random requests to every route, made from the OpenAPI document, and what must hold of each answer. */
export function testAnswers({ requests, seed, vital, comparedMin }: Fuzzing): void {
  const servers = useServers('fuzz')
  const patience = { timeout: 240_000 + requests * 250 }

  test(
    `every answer is one that the document has (${requests} requests, seed ${seed})`,
    patience,
    async () => {
      const trouble: string[] = []
      const log = createLogger('error', { write: (line) => void trouble.push(line) })
      const hub = { secretKey: Buffer.alloc(32, 7).toString('base64') }
      const open = await servers.open({ log, hub })
      const keyed = await servers.open({ log, hub, adminKey })
      const targets = [toTarget(open), toTarget(keyed, [['Authorization', `Bearer ${adminKey}`]])]
      const report = await fuzz({ document, routes, targets, requests, seed })
      process.stdout.write(`fuzz (seed ${seed}): ${report.lines().join('\n  ')}\n`)
      expect([...report.violations, ...trouble.slice(0, 5)].join('\n')).toBe('')
      expect(({} as Record<string, unknown>).polluted).toBeUndefined()
      for (const [answer, countMin] of Object.entries(vital))
        expect(report.byRoute.get(answer) ?? 0, answer).toBeGreaterThanOrEqual(countMin)
      expect(report.compared).toBeGreaterThanOrEqual(comparedMin)
    },
  )
}

function toTarget({ url, clock }: TestServer, more: Target['headers'] = []): Target {
  const { host, port } = new URL(url)
  return { port: Number(port), headers: [['Host', host], ...more], advance: (ms) => clock.advance(ms) }
}
