/** Who takes part in this run: everyone, unless BENCH_ONLY names some or Redis is absent. */
import { bullmq } from './bullmq.js'
import { graphileWorker } from './graphile-worker.js'
import { pgBoss } from './pg-boss.js'
import { posthorn, posthornMemory } from './posthorn.js'

export function takingPart(servers, contenders) {
  const only = process.env.BENCH_ONLY?.split(',')
  return contenders.filter((contender) => {
    if (contender === bullmq && servers.redis === null) return false
    return only === undefined || only.includes(contender.name)
  })
}

export function printSettings(contenders, question) {
  for (const { name, version, settings } of contenders) {
    console.log(`  ${name} ${version}: ${settings[question]}`)
  }
}

export { bullmq, graphileWorker, pgBoss, posthorn, posthornMemory }
