import { describe, expect, test } from 'vitest'
import { AddressPolicy } from '../../../src/webhooks/send/address-policy.ts'
import { checkTargetUrl } from '../../../src/webhooks/send/target-url.ts'

const strict = new AddressPolicy()
const lenient = new AddressPolicy(['127.0.0.0/8', '10.0.0.0/8'])

const loopbacks = [
  '127.0.0.1',
  '127.1',
  '2130706433',
  '0x7f.1',
  '0x7f000001',
  '0177.0.0.1',
  '017700000001',
  '127.0.0.1.',
  '①②⑦.⓪.⓪.①',
  '[::ffff:7f00:1]',
  '[::ffff:127.0.0.1]',
]
const neverPublic = [
  '0',
  '0.0.0.0',
  '[::]',
  '[::1]',
  '[64:ff9b::7f00:1]',
  '[2002:7f00:1::]',
  '[2001:0:4136:e378:8000:63bf:3fff:fdd2]',
  '[fd00::1]',
  '[::7f00:1]',
  '100.64.0.1',
  '172.16.0.1',
  '192.0.0.1',
  '192.168.0.1',
  '198.18.0.1',
  '224.0.0.1',
  '255.255.255.255',
]
const metadata = [
  '169.254.169.254',
  '[fe80::1]',
  '[64:ff9b::a9fe:a9fe]',
  '[::ffff:a9fe:a9fe]',
  '2852039166',
  '168.63.129.16',
  '100.100.100.200',
  '[fd00:ec2::254]',
  'metadata.google.internal',
  'METADATA.google.internal.',
  'metadata.goog',
]
const localNames = [
  'localhost',
  'LOCALHOST',
  'localhost.',
  'api.localhost',
  'intranet',
  'example.com.',
  'db.internal',
  'printer.local',
  'nas.home.arpa',
  'web.default.svc',
  'web.default.svc.cluster.local',
  'router.lan',
]

describe('a URL to send to', () => {
  test.each([
    ['https://example.com', 'https://example.com/'],
    ['HTTP://EXAMPLE.com:80/a b?c=d', 'http://example.com/a%20b?c=d'],
    ['https://example.com:8443/hooks', 'https://example.com:8443/hooks'],
    ['https://münchen.example/', 'https://xn--mnchen-3ya.example/'],
    ['https://8.8.8.8/', 'https://8.8.8.8/'],
    ['https://[2606:4700::1111]/', 'https://[2606:4700::1111]/'],
  ])('%s is kept as %s', (text, href) => {
    expect(checkTargetUrl(text, strict)).toBe(href)
  })

  test.each([...loopbacks, ...neverPublic, ...metadata, ...localNames])('%s is refused', (host) => {
    expect(() => checkTargetUrl(`https://${host}/`, strict)).toThrow(
      /^Expected url to be on a public host \(POSTHORN_ALLOW_CIDRS admits others\), got /,
    )
  })

  test.each([...loopbacks, ...localNames, '10.1.2.3'])('%s is admitted once it is allowed', (host) => {
    expect(checkTargetUrl(`https://${host}/`, lenient)).toMatch(/^https:\/\//)
  })

  test.each([...neverPublic, ...metadata])('%s is refused even then', (host) => {
    expect(() => checkTargetUrl(`https://${host}/`, lenient)).toThrow('on a public host')
  })

  test.each([
    ['not a URL', 'an http or https URL'],
    ['ftp://example.com/', 'an http or https URL'],
    ['file:///etc/passwd', 'an http or https URL'],
    ['https://', 'an http or https URL'],
    ['https://[fe80::1%25eth0]/', 'an http or https URL'],
    ['https://user@example.com/', 'without a name and password'],
    ['https://:secret@example.com/', 'without a name and password'],
    ['https://example.com/#top', 'without a fragment'],
    ['https://example.com/#', 'without a fragment'],
    ['https://example.com:0/', 'a port that exists'],
    [`https://example.com/${'a'.repeat(2048)}`, 'at most 2048 characters'],
  ])('%.40s is refused: %s', (text, expected) => {
    expect(() => checkTargetUrl(text, strict)).toThrow(expected)
  })

  test('a password is not repeated in the refusal', () => {
    expect(() => checkTargetUrl('https://user:hunter2@example.com/', strict)).not.toThrow('hunter2')
    expect(() => checkTargetUrl('https://user:hunter2@example.com/', strict)).toThrow()
  })
})
