import { describe, expect, test } from 'vitest'
import { AddressPolicy } from '../../../src/webhooks/send/address-policy.ts'
import { Resolver } from '../../../src/webhooks/send/resolver.ts'
import { type DnsServer, dnsServer, type Family, type Reply } from './dns-server.ts'

const strict = new AddressPolicy()
const lenient = new AddressPolicy(['10.0.0.0/8', '127.0.0.0/8'])
const nobody = async () => []

function only4(...addresses: string[]): (name: string, family: Family) => Reply {
  return (_, family) => (family === 'A' ? { addresses } : 'none')
}

function resolverFor(
  { server }: DnsServer,
  options: Partial<ConstructorParameters<typeof Resolver>[0]> = {},
) {
  return new Resolver({ policy: strict, servers: [server], lookup: nobody, ...options })
}

describe('a name', () => {
  test('gives the addresses of both families, IPv4 first', async () => {
    const dns = await dnsServer((_, family) => ({
      addresses: family === 'A' ? ['93.184.216.34', '93.184.216.35'] : ['2606:4700::1111'],
    }))
    const addresses = await resolverFor(dns).resolve('Hooks.Example.')
    expect(addresses.map((address) => address.replace(/35$/, '34'))).toEqual([
      '93.184.216.34',
      '93.184.216.34',
      '2606:4700::1111',
    ])
    expect(dns.questions.map(({ name }) => name)).toEqual(['hooks.example', 'hooks.example'])
  })

  test('gives only those that are allowed, and the operator hears of the others', async () => {
    const dns = await dnsServer((_, family) => ({
      addresses: family === 'A' ? ['10.0.0.1', '93.184.216.34'] : ['::1', 'fe80::1'],
    }))
    const blocked: string[] = []
    const onBlocked = ({ address, verdict }: { address: string; verdict: string }) =>
      blocked.push(`${address} ${verdict}`)
    expect(await resolverFor(dns, { onBlocked }).resolve('hooks.example')).toEqual(['93.184.216.34'])
    expect(blocked.sort()).toEqual(['10.0.0.1 forbidden', '::1 forbidden', 'fe80::1 metadata'])
  })

  test('is blocked if none of its addresses is allowed, without a word of what they are', async () => {
    const resolver = resolverFor(await dnsServer(only4('10.0.0.1', '169.254.169.254')))
    await expect(resolver.resolve('hooks.example')).rejects.toMatchObject({
      errorClass: 'blocked',
      message: expect.not.stringMatching(/10\.|169/),
    })
  })

  test.each(['none', 'NXDOMAIN', 'SERVFAIL'] as const)('that leads to %s fails as dns', async (reply) => {
    const resolver = resolverFor(await dnsServer(() => reply))
    await expect(resolver.resolve('hooks.example')).rejects.toMatchObject({ errorClass: 'dns' })
  })

  test('nobody answers for fails as dns when its time is over', async () => {
    const resolver = resolverFor(await dnsServer(() => 'silence'), { budgetMs: 200 })
    await expect(resolver.resolve('hooks.example')).rejects.toMatchObject({ errorClass: 'dns' })
  })

  test('is found though one family is never answered for', async () => {
    const dns = await dnsServer((_, family) => (family === 'A' ? { addresses: ['8.8.8.8'] } : 'silence'))
    expect(await resolverFor(dns, { budgetMs: 20_000 }).resolve('hooks.example')).toEqual(['8.8.8.8'])
  })

  test('is found though one family fails', async () => {
    const dns = await dnsServer((_, family) =>
      family === 'A' ? 'SERVFAIL' : { addresses: ['2606:4700::1111'] },
    )
    expect(await resolverFor(dns).resolve('hooks.example')).toEqual(['2606:4700::1111'])
  })

  test('that changes between two dials is judged at each', async () => {
    const answers = ['93.184.216.34', '127.0.0.1']
    const dns = await dnsServer((_, family) =>
      family === 'A' ? { addresses: [answers.shift() as string], ttl: 0 } : 'none',
    )
    const resolver = resolverFor(dns)
    expect(await resolver.resolve('rebind.example')).toEqual(['93.184.216.34'])
    await expect(resolver.resolve('rebind.example')).rejects.toMatchObject({ errorClass: 'blocked' })
  })
})

describe('addresses and loopback names are not asked for', () => {
  test.each([
    ['127.0.0.1', ['127.0.0.1']],
    ['10.1.2.3', ['10.1.2.3']],
    ['localhost', ['127.0.0.1']],
    ['LOCALHOST.', ['127.0.0.1']],
    ['api.localhost', ['127.0.0.1']],
  ])('%s', async (host, addresses) => {
    const dns = await dnsServer(() => 'NXDOMAIN')
    expect(await resolverFor(dns, { policy: lenient }).resolve(host)).toEqual(addresses)
    await expect(resolverFor(dns).resolve(host)).rejects.toMatchObject({ errorClass: 'blocked' })
    expect(dns.questions).toEqual([])
  })

  test.each(['169.254.169.254', '[::1]', '[fe80::1]', '[::ffff:a9fe:a9fe]'])(
    '%s is blocked',
    async (host) => {
      const resolver = resolverFor(await dnsServer(() => 'NXDOMAIN'), { policy: lenient })
      await expect(resolver.resolve(host)).rejects.toMatchObject({ errorClass: 'blocked' })
    },
  )
})

describe('the hosts file and the like', () => {
  test('are asked if private addresses are allowed and the servers know nothing', async () => {
    const lookup = async (host: string) => (host === 'receiver' ? ['10.0.0.7'] : [])
    const resolver = resolverFor(await dnsServer(() => 'NXDOMAIN'), { policy: lenient, lookup })
    expect(await resolver.resolve('receiver')).toEqual(['10.0.0.7'])
    await expect(resolver.resolve('other')).rejects.toMatchObject({ errorClass: 'dns' })
  })

  test('do not make metadata addresses reachable', async () => {
    const resolver = resolverFor(await dnsServer(() => 'NXDOMAIN'), {
      policy: lenient,
      lookup: async () => ['169.254.169.254'],
    })
    await expect(resolver.resolve('receiver')).rejects.toMatchObject({ errorClass: 'blocked' })
  })

  test('are not asked otherwise', async () => {
    const resolver = resolverFor(await dnsServer(() => 'NXDOMAIN'), { lookup: async () => ['8.8.8.8'] })
    await expect(resolver.resolve('receiver')).rejects.toMatchObject({ errorClass: 'dns' })
  })
})

describe('answers are remembered', () => {
  async function asked(reply: Reply, waitMs: number): Promise<number> {
    let nowMs = 0
    const dns = await dnsServer((_, family) => (family === 'A' ? reply : 'none'))
    const resolver = resolverFor(dns, { now: () => nowMs })
    await resolver.resolve('hooks.example').catch(() => [])
    nowMs += waitMs
    await resolver.resolve('hooks.example').catch(() => [])
    return dns.questions.filter(({ family }) => family === 'A').length
  }

  test.each([
    ['for as long as they say', { addresses: ['8.8.8.8'], ttl: 60 }, 59_999, 1],
    ['and not longer', { addresses: ['8.8.8.8'], ttl: 60 }, 60_000, 2],
    ['for five minutes at most', { addresses: ['8.8.8.8'], ttl: 86_400 }, 299_999, 1],
    ['and not for a day', { addresses: ['8.8.8.8'], ttl: 86_400 }, 300_000, 2],
    ['not at all if they say so', { addresses: ['8.8.8.8'], ttl: 0 }, 0, 2],
    ['for thirty seconds if there is no such name', 'none', 29_999, 1],
    ['and then asked for again', 'none', 30_000, 2],
    ['not if the server failed', 'SERVFAIL', 0, 2],
  ] as const)('%s', async (_, reply, waitMs, questions) => {
    const count = await asked(reply, waitMs)
    // A server that fails is asked twice each time.
    expect(reply === 'SERVFAIL' ? count > 1 : count === questions).toBe(true)
  })

  test('connections that are opened together share one question', async () => {
    const dns = await dnsServer(only4('8.8.8.8'))
    const resolver = resolverFor(dns)
    await Promise.all(Array.from({ length: 10 }, () => resolver.resolve('hooks.example')))
    expect(dns.questions).toHaveLength(2)
  })

  test('a thousand of them', async () => {
    const dns = await dnsServer(only4('8.8.8.8'))
    const resolver = resolverFor(dns)
    for (let i = 0; i <= 1000; i++) await resolver.resolve(`host-${i}.example`)
    const before = dns.questions.length
    await resolver.resolve('host-1000.example')
    expect(dns.questions).toHaveLength(before)
    await resolver.resolve('host-0.example')
    expect(dns.questions).toHaveLength(before + 2)
  })
})
