// Installs and builds what `npm start` and `npm test` need, and does nothing when both are current.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const lockStamp = join(root, 'node_modules', '.posthorn-lock')
const lock = readFileSync(join(root, 'package-lock.json'), 'utf8')

if (!existsSync(lockStamp) || readFileSync(lockStamp, 'utf8') !== lock) {
  run('npm', ['ci', '--no-audit', '--no-fund', '--ignore-scripts', '--include=dev'])
  writeFileSync(lockStamp, lock)
}
const sources = ['src', 'migrations', 'scripts'].map((folder) => newest(join(root, folder)))
if (Math.max(...sources) > newest(join(root, 'dist'))) run('npm', ['run', '--silent', 'build'])

function newest(path) {
  if (!existsSync(path)) return 0
  const stat = statSync(path)
  if (!stat.isDirectory()) return stat.mtimeMs
  return Math.max(0, ...readdirSync(path).map((name) => newest(join(path, name))))
}

function run(command, args) {
  const { status, error } = spawnSync(command, args, {
    cwd: root,
    stdio: 'inherit',
    shell: process.platform === 'win32',
  })
  if (error) throw error
  if (status !== 0) process.exit(status ?? 1)
}
