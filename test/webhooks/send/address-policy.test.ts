import { describe, expect, test } from 'vitest'
import { AddressPolicy, ownAddresses, parseCidr } from '../../../src/webhooks/send/address-policy.ts'

const everything = ['0.0.0.0/0', '::/0']

describe('addresses are judged', () => {
  test.each([
    '93.184.216.34',
    '8.8.8.8',
    '100.63.255.255',
    '100.128.0.0',
    '172.15.255.255',
    '172.32.0.0',
    '192.0.1.0',
    '198.17.255.255',
    '198.20.0.0',
    '223.255.255.255',
    '168.63.129.15',
    '2606:4700::1111',
    '[2a00:1450:4001::1]',
    '2001:200::1',
    '::ffff:8.8.8.8',
  ])('%s is public', (address) => {
    expect(new AddressPolicy().judge(address)).toBe('allowed')
  })

  test.each([
    '0.0.0.0',
    '0.1.2.3',
    '10.0.0.1',
    '100.64.0.1',
    '127.0.0.1',
    '127.255.255.255',
    '172.16.0.1',
    '172.31.255.255',
    '192.0.0.1',
    '192.0.2.1',
    '192.88.99.1',
    '192.168.1.1',
    '198.18.0.1',
    '198.19.255.255',
    '198.51.100.1',
    '203.0.113.1',
    '224.0.0.1',
    '239.255.255.255',
    '240.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '[::1]',
    '::7f00:1',
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '0:0:0:0:0:FFFF:7F00:0001',
    '::ffff:0:7f00:1',
    '64:ff9b::7f00:1',
    '64:ff9b::8.8.8.8',
    '64:ff9b:1::1',
    '100::1',
    '2001::1',
    '2001:0:4136:e378:8000:63bf:80ff:fffe',
    '2001:10::1',
    '2001:db8::1',
    '2002:7f00:1::',
    '2002:808:808::1',
    '3fff::1',
    '5f00::1',
    'fc00::1',
    'fd00::1',
    'fec0::1',
    'ff02::1',
  ])('%s is not', (address) => {
    expect(new AddressPolicy().judge(address)).toBe('forbidden')
  })

  test.each([
    '169.254.169.254',
    '169.254.170.2',
    '100.100.100.200',
    '192.0.0.192',
    '168.63.129.16',
    'fe80::1',
    'fe80::1%eth0',
    'fd00:ec2::254',
    'fd20:ce::254',
    'fd00:42::42',
    '::ffff:169.254.169.254',
    '::a9fe:a9fe',
    '::ffff:0:a9fe:a9fe',
    '64:ff9b::a9fe:a9fe',
    '64:ff9b:1::a9fe:a9fe',
    '2002:a9fe:a9fe::',
    '2001:0:4136:e378:8000:63bf:5601:5601',
  ])('%s hands out credentials and stays blocked whatever is allowed', (address) => {
    expect(new AddressPolicy().judge(address)).toBe('metadata')
    expect(new AddressPolicy(everything).judge(address)).toBe('metadata')
    expect(new AddressPolicy([address.replace(/%.*/, '')]).judge(address)).toBe('metadata')
  })

  test.each(['', 'localhost', '127.1', '1.2.3', '0x7f.0.0.1', '::1::', '[::1'])(
    'what is no address, such as "%s", is forbidden',
    (text) => {
      expect(new AddressPolicy(everything).judge(text)).toBe('forbidden')
    },
  )
})

describe('private addresses are allowed by name', () => {
  test('only those that were named', () => {
    const policy = new AddressPolicy(['10.1.0.0/16', '127.0.0.1', 'fd12::/16'])
    expect(['10.1.2.3', '127.0.0.1', 'fd12::9'].map((address) => policy.judge(address))).toEqual(
      Array(3).fill('allowed'),
    )
    expect(['10.2.0.0', '127.0.0.2', '::1', 'fd13::9'].map((address) => policy.judge(address))).toEqual(
      Array(4).fill('forbidden'),
    )
    expect(policy.hasAllowances).toBe(true)
    expect(new AddressPolicy().hasAllowances).toBe(false)
  })

  test('an IPv4 network covers its mapped spelling, and the other way round', () => {
    for (const network of ['127.0.0.0/8', '::ffff:127.0.0.0/104']) {
      const policy = new AddressPolicy([network])
      expect(policy.judge('::ffff:7f00:1')).toBe('allowed')
      expect(policy.judge('127.0.0.1')).toBe('allowed')
      expect(policy.judge('10.0.0.1')).toBe('forbidden')
      expect(policy.judge('::7f00:1')).toBe('forbidden')
    }
  })

  test('one family does not speak for the other', () => {
    expect(new AddressPolicy(['::/0']).judge('127.0.0.1')).toBe('forbidden')
    expect(new AddressPolicy(['0.0.0.0/0']).judge('::1')).toBe('forbidden')
  })

  test('NAT64, once allowed, is judged by the address it carries', () => {
    const policy = new AddressPolicy(['64:ff9b::/96'])
    expect(policy.judge('64:ff9b::8.8.8.8')).toBe('allowed')
    expect(policy.judge('64:ff9b::10.0.0.1')).toBe('forbidden')
  })

  test('the public addresses of this machine are forbidden unless allowed', () => {
    const own = ['93.184.216.34', '2606:4700::1111']
    expect(own.map((address) => new AddressPolicy([], { own }).judge(address))).toEqual([
      'forbidden',
      'forbidden',
    ])
    expect(new AddressPolicy(['93.184.216.0/24'], { own }).judge('93.184.216.34')).toBe('allowed')
  })

  test('the addresses of this machine can be read', () => {
    expect(ownAddresses()).toContain('127.0.0.1')
    expect(() => new AddressPolicy([], { own: ownAddresses() })).not.toThrow()
  })
})

describe('networks are read', () => {
  test.each([
    ['10.0.0.0/8', { version: 4, value: 0x0a000000n, bits: 8 }],
    [' 127.0.0.1 ', { version: 4, value: 0x7f000001n, bits: 32 }],
    ['fd00::/8', { version: 6, value: 0xfdn << 120n, bits: 8 }],
    ['::1', { version: 6, value: 1n, bits: 128 }],
    ['::ffff:10.0.0.0/104', { version: 4, value: 0x0a000000n, bits: 8 }],
  ])('%s', (text, cidr) => {
    expect(parseCidr(text)).toEqual(cidr)
  })

  test.each([
    '',
    'localhost',
    '10.0.0.0/33',
    '10.0.0.0/',
    '10.0.0.0/-1',
    '10.0.0.0/8/8',
    '10.0.0.0/8.5',
    '10.0.0/8',
    '010.0.0.0/8',
    '::1/129',
    '::ffff:10.0.0.0/90',
    'fe80::1%eth0',
    '[::1]',
    '10.0.0.0/8,127.0.0.1',
  ])('"%s" is refused by name and value', (text) => {
    expect(() => new AddressPolicy([text])).toThrow(
      `Expected POSTHORN_ALLOW_CIDRS to be networks such as 10.0.0.0/8, separated by commas, got ${text || '""'}.`,
    )
  })
})
