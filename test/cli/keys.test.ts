import { describe, expect, test } from 'vitest'
import { readKeysAction } from '../../src/cli/keys.ts'
import type { PostgresDatabase } from '../../src/db/postgres.ts'
import { newKey, parseKey } from '../../src/domain/api-key.ts'
import { anyKeys, listKeys, touchKeys } from '../../src/keys/api-keys.ts'
import { KeyRing } from '../../src/keys/key-ring.ts'
import { listActions } from '../support/admin-log.ts'
import { only, useEngines } from '../support/engine.ts'

const openEngine = useEngines('cli_keys', { schemas: 'emptied' })

async function run(db: PostgresDatabase, line: string | string[]): Promise<string[]> {
  const lines: string[] = []
  const args = typeof line === 'string' ? line.split(' ') : line
  const by = { actor: 'cli:anna', url: 'http://localhost:8080' }
  await readKeysAction(args).run(db, (text) => void lines.push(text), by)
  return lines
}

test('create prints the key once, and a call that it may make', async () => {
  const { db } = await openEngine()
  const lines = await run(
    db,
    'create --name billing --scopes publish,read --rate 100 --expires 2127-01-01T00:00:00Z',
  )
  const text = only(lines.filter((line) => parseKey(line) !== undefined))
  expect(lines[0]).toContain('billing')
  expect(lines.filter((line) => line.includes(text))).toEqual([text])
  expect(lines.at(-1)).toBe(
    `curl -H "Authorization: Bearer $POSTHORN_KEY" -H 'Content-Type: application/json' -d '{"type":"hello","payload":"world"}' http://localhost:8080/events`,
  )
  expect(only(await listKeys(db))).toMatchObject({
    id: parseKey(text)?.id,
    name: 'billing',
    scopes: ['publish', 'read'],
    ratePerSecond: 100,
    expiresAt: new Date('2127-01-01T00:00:00Z'),
    createdBy: 'cli:anna',
  })
  const ring = new KeyRing({ db, adminKey: undefined })
  expect(await ring.check(`Bearer ${text}`)).toMatchObject({ name: 'billing', ratePerSecond: 100 })
  await ring.stop()
})

test.each([
  ['consume', '/events/subscribe?tags=hello&worker_id=me'],
  ['read', '/events'],
  ['manage', '/subscribers'],
  ['admin', '-d'],
])('a key with the scope %s is shown with a call of that scope', async (scopes, call) => {
  const { db } = await openEngine()
  const lines = await run(db, ['create', '--name=a key', `--scopes= ${scopes}`])
  expect(lines.at(-1)).toContain(call)
})

describe('list', () => {
  test('shows a table, and never a secret or a hash', async () => {
    const { db } = await openEngine()
    const created = await run(db, 'create --name billing --scopes publish,read --rate 0.5')
    await run(db, 'create --name a-much-longer-name --scopes admin')
    const { id, secret } = parseKey(created[2] as string) ?? newKey()
    await touchKeys(db, [id])
    const [heading, ...lines] = await run(db, 'list')
    expect(heading).toMatch(/^ID {12}NAME {16}SCOPES {8}RATE\/S {2}STATE {3}CREATED +EXPIRES {2}LAST USED$/)
    expect(lines).toHaveLength(2)
    const line = lines.find((text) => text.startsWith(id)) as string
    const time = String.raw`\d{4}-\d\d-\d\dT[\d:.]+Z`
    expect(line).toMatch(new RegExp(`^${id}  billing +publish,read  0.5 +active  ${time}  -        ${time}$`))
    expect(lines.join()).not.toContain(secret)
    const json = (await run(db, 'list --json')).join('\n')
    expect(json).not.toContain(secret)
    expect(json).not.toContain('hash')
    expect(JSON.parse(json)).toContainEqual({
      id,
      name: 'billing',
      scopes: ['publish', 'read'],
      rate_per_second: 0.5,
      state: 'active',
      created_at: expect.stringMatching(time),
      created_by: 'cli:anna',
      expires_at: null,
      revoked_at: null,
      revoked_by: null,
      last_used_at: expect.stringMatching(time),
    })
  })

  test('says so when there are none', async () => {
    const { db } = await openEngine()
    expect(only(await run(db, 'list'))).toContain('no keys')
    expect(await run(db, 'list --json')).toEqual(['[]'])
  })
})

describe('revoke', () => {
  test.each([
    ['its id', (text: string) => parseKey(text)?.id as string],
    ['all of it', (text: string) => text],
    ['its beginning', (text: string) => text.slice(0, 20)],
  ])('takes a key by %s, twice as well as once', async (_, toGiven) => {
    const { db } = await openEngine()
    const created = await run(db, 'create --name billing --scopes publish')
    const text = created[2] as string
    const first = await run(db, ['revoke', toGiven(text)])
    expect(await run(db, ['revoke', toGiven(text)])).toEqual(first)
    expect(only(first)).toContain(`${parseKey(text)?.id} (billing) is revoked`)
    expect(only(first)).not.toContain(parseKey(text)?.secret)
    expect(only(await listKeys(db))).toMatchObject({ state: 'revoked', revokedBy: 'cli:anna' })
    expect((await listActions(db)).map(({ action }) => action)).toEqual(['key.revoke', 'key.create'])
  })

  test('of an unknown key fails', async () => {
    const { db } = await openEngine()
    const { id } = newKey()
    await expect(run(db, ['revoke', id])).rejects.toMatchObject({ code: 'NOT_FOUND', details: { id } })
  })
})

describe('what is refused, by the name and value that were typed', () => {
  const made = 'create --name billing --scopes publish'
  test.each([
    [[], 'keys', 'nothing'],
    ['rotate', 'keys', 'rotate'],
    ['create', '--name', 'nothing'],
    ['create --name billing', '--scopes', 'nothing'],
    ['create --scopes publish --name', '--name', 'nothing'],
    ['create --name --scopes publish', '--name', '--scopes'],
    [['create', '--name=', '--scopes', 'read'], '--name', 'nothing'],
    [['create', '--name', 'a\nb', '--scopes', 'read'], '--name', 'a\nb'],
    ['create --name billing --scopes publish,write', '--scopes', 'write'],
    ['create --name billing --scopes publish,', '--scopes', ''],
    [`${made} --rate fast`, '--rate', 'fast'],
    [`${made} --rate -5`, '--rate', -5],
    [`${made} --rate 0`, '--rate', 0],
    [[...made.split(' '), '--rate='], '--rate', 'nothing'],
    [`${made} --expires tomorrow`, '--expires', 'tomorrow'],
    [`${made} --expires 2127-01-01`, '--expires', '2127-01-01'],
    [`${made} --expires 2127-01-01T00:00:00`, '--expires', '2127-01-01T00:00:00'],
    [`${made} --expires 2127-02-30T00:00:00Z`, '--expires', '2127-02-30T00:00:00Z'],
    [`${made} --expires 2001-01-01T00:00:00Z`, '--expires', '2001-01-01T00:00:00.000Z'],
    [`${made} --scope read`, '--scope', '--scope'],
    [`${made} --constructor x`, '--constructor', '--constructor'],
    [`${made} --name again`, '--name', 'again'],
    [`${made} extra`, 'arguments', 'extra'],
    ['list all', 'arguments', 'all'],
    ['list --json=yes', '--json', 'yes'],
    ['list -x', '-x', '-x'],
    ['revoke', '<id>', 'nothing'],
    ['revoke a b', 'arguments', 'b'],
    ['revoke a --force', '--force', '--force'],
  ])('%s', async (line, option, value) => {
    const { db } = await openEngine()
    await expect(run(db, line)).rejects.toMatchObject({ code: 'BAD_OPTION', details: { option, value } })
    expect(await anyKeys(db)).toBe(false)
  })
})
