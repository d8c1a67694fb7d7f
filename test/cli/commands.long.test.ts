import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually } from '../support/signal.ts'
import { posthorn, serve } from './process.ts'

describe('on the embedded database', () => {
  let parent: string
  let env: Record<string, string>
  beforeAll(async () => {
    parent = await mkdtemp(join(tmpdir(), 'ph-cli-'))
    env = { POSTHORN_DATA_DIR: join(parent, 'data') }
  })
  afterAll(() => rm(parent, { recursive: true, force: true }))
  const isRunning = () => existsSync(join(parent, 'data', 'postgres', 'postmaster.pid'))

  test('commands that only look make no database', async () => {
    for (const args of [
      ['keys', 'list'],
      ['migrate', '--dry-run'],
    ]) {
      const { code, stderr } = await posthorn(args, env)
      expect({ args, code }).toEqual({ args, code: 1 })
      expect(stderr).toMatch(/^DATA_DIRECTORY_UNUSABLE: .* there is no database in it yet.*\n$/)
    }
    const { code, stdout } = await posthorn(['doctor'], { ...env, PORT: '0' })
    expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringContaining('none yet') })
    expect(existsSync(join(parent, 'data'))).toBe(false)
  })

  test('a command starts the server for its own time', async () => {
    const { code, stdout } = await posthorn(['migrate'], env)
    expect({ code, stdout }).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/applied 0001_baseline\./),
    })
    expect(isRunning()).toBe(false)
    expect(await posthorn(['keys', 'list'], env)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('no keys'),
    })
    expect(isRunning()).toBe(false)
  })

  test('a server that refuses to start leaves nothing running', async () => {
    expect(await posthorn(['serve'], { ...env, HOST: '0.0.0.0', PORT: '0' })).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/^BIND_REFUSED: /),
    })
    expect(isRunning()).toBe(false)
  })

  test('commands join the server that is running, and leave it so; the first key closes the API', async () => {
    const server = await serve(env)
    expect(server.lines[1]).toMatch(/^PostgreSQL .* in \/.*\/data, durable: fsync/)
    expect((await fetch(`${server.url}/events`)).status).toBe(200)
    const port = new URL(server.url).port
    const doctor = await posthorn(['doctor'], { ...env, PORT: port })
    expect(doctor).toMatchObject({ code: 0, stderr: '' })
    expect(doctor.stdout).toContain(`posthorn answers on port ${port}`)
    expect(doctor.stdout).not.toMatch(/^(warn|fail)/m)

    const created = await posthorn(['keys', 'create', '--name', 'a', '--scopes', 'publish,read'], {
      ...env,
      PORT: port,
    })
    expect(created).toMatchObject({ code: 0, stderr: '' })
    expect(created.stdout).toContain(`http://localhost:${port}/events`)
    const key = /^ph_\S+$/m.exec(created.stdout)?.[0] as string
    await eventually('calls need a key', async () => (await fetch(`${server.url}/events`)).status === 401)

    const target = { POSTHORN_URL: server.url, POSTHORN_KEY: key }
    expect(await posthorn(['publish', 'a'], { POSTHORN_URL: server.url })).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^UNAUTHORIZED: .*\n$/),
    })
    expect(await posthorn(['publish', 'a'], target)).toMatchObject({ code: 0 })
    expect(isRunning()).toBe(true)
    expect(await server.stop()).toMatchObject({ code: 0, stderr: '' })
    expect(isRunning()).toBe(false)
  })
})
