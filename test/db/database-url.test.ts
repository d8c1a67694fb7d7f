import { expect, test } from 'vitest'
import { readConfig } from '../../src/config.ts'
import { urlsOfHosts } from '../../src/db/database-url.ts'

test.each([
  ['postgres://u:p@h/db', ['postgres://u:p@h/db']],
  [
    'postgres://u:p%2C@a:5432,b:5433/db?sslmode=disable&target_session_attrs=read-write',
    ['postgres://u:p%2C@a:5432/db?sslmode=disable', 'postgres://u:p%2C@b:5433/db?sslmode=disable'],
  ],
  ['postgresql://[::1]:1,b?target_session_attrs=primary', ['postgresql://[::1]:1', 'postgresql://b']],
])('%s names %j', (url, urls) => {
  expect(urlsOfHosts(url, 'database')).toEqual(urls)
})

test.each([
  ['postgres://u@a,,b/db', 'between its commas'],
  ['postgres://u@a,b/db?target_session_attrs=standby', 'target_session_attrs=standby'],
  ['postgres://u@a:no,b/db', 'one that cannot be read'],
])('DATABASE_URL=%s is refused by its name', (url, says) => {
  const reading = () => readConfig({}, { DATABASE_URL: url })
  expect(reading).toThrow('DATABASE_URL')
  expect(reading).toThrow(says)
})

test('a URL with several hosts is a database like any other', () => {
  const url = 'postgres://u@a:5432,b:5433/db'
  expect(readConfig({}, { DATABASE_URL: url }).database).toBe(url)
})
