import { describe, expect, test } from 'vitest'
import { readConfig } from '../../src/config.ts'

const dayMs = 24 * 60 * 60 * 1000

test('finished events and the audit are kept for a week, dead letters for 90 days, and nothing is archived', () => {
  expect(readConfig({}, {})).toMatchObject({
    keepFinishedMs: 7 * dayMs,
    keepAuditMs: 7 * dayMs,
    keepDeadLettersMs: 90 * dayMs,
    archiveDirectory: undefined,
  })
})

test('the environment says, unless an option does', () => {
  const env = {
    POSTHORN_KEEP_FINISHED_MS: '0',
    POSTHORN_KEEP_AUDIT_MS: String(2 * dayMs),
    POSTHORN_KEEP_DEAD_LETTERS_MS: '5',
    POSTHORN_ARCHIVE_DIR: '/srv/audit',
  }
  const set = {
    keepFinishedMs: 0,
    keepAuditMs: 2 * dayMs,
    keepDeadLettersMs: 5,
    archiveDirectory: '/srv/audit',
  }
  expect(readConfig({}, env)).toMatchObject(set)
  expect(readConfig({ keepFinishedMs: 9, archiveDirectory: 'here' }, env)).toMatchObject({
    ...set,
    keepFinishedMs: 9,
    archiveDirectory: 'here',
  })
})

test('a variable that is set to nothing is not set', () => {
  const env = { POSTHORN_KEEP_FINISHED_MS: '', POSTHORN_ARCHIVE_DIR: '' }
  expect(readConfig({}, env)).toMatchObject({ keepFinishedMs: 7 * dayMs, archiveDirectory: undefined })
})

describe('what is refused', () => {
  test.each([
    ['keepFinishedMs', { keepFinishedMs: -1 }],
    ['keepFinishedMs', { keepFinishedMs: 1.5 }],
    ['keepAuditMs', { keepAuditMs: dayMs - 1 }],
    ['keepDeadLettersMs', { keepDeadLettersMs: Number.NaN }],
    ['archiveDirectory', { archiveDirectory: '' }],
  ])('%s: %j', (option, options) => {
    expect(() => readConfig(options, {})).toThrow(`Expected ${option} to be`)
  })

  test('a variable that is no number', () => {
    const env = { POSTHORN_KEEP_AUDIT_MS: 'long' }
    expect(() => readConfig({}, env)).toThrow(/^Expected POSTHORN_KEEP_AUDIT_MS to be .*, got long\.$/)
  })
})
