/** `npm run bench` runs every question, `npm run bench -- publish latency` some. */
import { fork, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { fileURLToPath } from 'node:url'

const questions = [
  'drain',
  'memory',
  'lanes',
  'processes',
  'publish',
  'filters',
  'latency',
  'beside',
  'http',
  'webhooks',
  'claim',
  'pull',
  'snapshot',
]
/** Asked only by name: they take long. */
const byName = ['list', 'load', 'idle', 'prune']
const here = fileURLToPath(new URL('.', import.meta.url))
const root = fileURLToPath(new URL('..', import.meta.url))
/** The question that is being answered. */
let asked = null

await main(process.argv.slice(2))

async function main(names) {
  for (const name of names) {
    if (![...questions, ...byName].includes(name)) {
      throw new Error(`Expected one of ${[...questions, ...byName].join(', ')}, got ${name}`)
    }
  }
  prepare()
  const begin = performance.now()
  // Imported only now: it needs the packages that prepare() installs.
  const { startServers } = await import('./server.js')
  const { servers, lines, stop } = await startServers()
  const stopEarly = () => {
    asked?.kill()
    stop().finally(() => process.exit(130))
  }
  process.once('SIGINT', stopEarly)
  process.once('SIGTERM', stopEarly)

  const verdicts = []
  const failed = []
  try {
    printMachine(lines)
    const all = names.length === 0
    for (const name of all ? questions : names) {
      const answer = await ask(name, servers, all)
      verdicts.push(...answer.verdicts)
      if (!answer.passed) failed.push(name)
    }
  } finally {
    await stop()
  }
  printSummary(verdicts, failed, (performance.now() - begin) / 1000)
  process.exitCode = failed.length === 0 ? 0 : 1
}

/** Each question runs in a process of its own, so that one's heap is not another's pause. */
async function ask(name, servers, all) {
  console.log(`\n== ${name}`)
  const verdicts = []
  const child = fork(`${here}${name}.js`, [], {
    env: { ...process.env, BENCH_SERVERS: JSON.stringify(servers), ...(all ? { BENCH_ALL: '1' } : {}) },
  })
  asked = child
  child.on('message', (verdict) => verdicts.push(verdict))
  const [code] = await once(child, 'exit')
  asked = null
  if (code !== 0) console.log(`\n${name} FAILED`)
  return { verdicts, passed: code === 0 }
}

function prepare() {
  if (!existsSync(`${here}node_modules`)) npm(here, 'ci', '--no-audit', '--no-fund')
  const peersOnly = process.env.BENCH_ONLY !== undefined && !process.env.BENCH_ONLY.includes('posthorn')
  if (!peersOnly && !existsSync(`${root}dist/index.js`)) npm(root, 'run', 'build')
  if (!peersOnly && !existsSync(`${root}dist/index.js`)) throw new Error('The build made no dist/index.js')
}

function npm(cwd, ...args) {
  const { status } = spawnSync('npm', args, { cwd, stdio: 'inherit', shell: process.platform === 'win32' })
  if (status !== 0) throw new Error(`npm ${args.join(' ')} failed in ${cwd}`)
}

function printMachine(lines) {
  const cores = cpus()
  console.log(`${cores.length} × ${cores[0]?.model ?? 'unknown CPU'}, ${Math.round(totalmem() / 2 ** 30)} GB`)
  console.log(`Node ${process.version}, ${process.platform} ${process.arch}`)
  for (const line of lines) console.log(line)
}

function printSummary(verdicts, failed, seconds) {
  console.log(`\n== summary, after ${Math.round(seconds)} s`)
  for (const { title, what, ratio, goal, met } of verdicts) {
    const figure =
      ratio === null ? 'not measured' : `${ratio.toFixed(2)} × (goal ${goal}) ${met ? 'met' : 'MISSED'}`
    console.log(`${title}: ${what}: ${figure}`)
  }
  if (failed.length > 0) console.log(`FAILED: ${failed.join(', ')}`)
}
