/** A small proxy between one process and the database, to cut, freeze or slow down all its connections. */
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const port = 5432

/**
 * @param {{ host: string, port: number }} target a socket directory or a host
 * @param {{ isOpen?: boolean }} [options] to every account of this machine
 */
export async function openProxy(target, { isOpen = false } = {}) {
  const directory = mkdtempSync(join(tmpdir(), 'ph-proxy-'))
  const pairs = new Set()
  /** What is done to connections that are opened while a fault lasts. */
  let dropped = nothing
  let slowMs = 0
  const server = createServer((client) => {
    const upstream = connect(
      target.host.startsWith('/') ? { path: join(target.host, `.s.PGSQL.${target.port}`) } : target,
    )
    const pair = { client, upstream, dropped, bytesLeft: Number.POSITIVE_INFINITY, late: new Map() }
    pairs.add(pair)
    const end = () => {
      pairs.delete(pair)
      client.destroy()
      upstream.destroy()
    }
    for (const socket of [client, upstream]) socket.on('error', end).on('close', end)
    client.on('data', (bytes) => forward(pair, { from: 'client', to: upstream, bytes, ms: 0 }))
    upstream.on('data', (bytes) => forward(pair, { from: 'server', to: client, bytes, ms: slowMs }))
  })
  /** What is dropped is gone, as on a network that loses packets for good: the connection never works again. */
  function forward(pair, { from, to, bytes, ms }) {
    if (pair.dropped.has(from)) return
    const late = pair.late.get(to) ?? []
    if (ms === 0 && late.length === 0) return pass(pair, to, bytes)
    // What comes later must not overtake, also when the connection is fast again.
    late.push(bytes)
    pair.late.set(to, late)
    setTimeout(() => {
      const first = late.shift()
      if (!pair.dropped.has(from) && !to.destroyed) pass(pair, to, first)
    }, ms)
  }
  /** As much as the connection has left. */
  function pass(pair, to, bytes) {
    to.write(bytes.subarray(0, pair.bytesLeft))
    pair.bytesLeft -= bytes.length
    if (pair.bytesLeft < 0) destroy(pair)
  }
  await new Promise((resolve) => server.listen(join(directory, `.s.PGSQL.${port}`), resolve))
  if (isOpen) {
    chmodSync(directory, 0o755)
    chmodSync(join(directory, `.s.PGSQL.${port}`), 0o777)
  }
  return {
    connection: { host: directory, port },
    get count() {
      return pairs.size
    },
    /** Connections that have lost something: they never work again. */
    get stuck() {
      return [...pairs].filter(isStuck).length
    },
    cutStuck() {
      for (const pair of pairs) if (isStuck(pair)) destroy(pair)
    },
    cut() {
      for (const pair of pairs) destroy(pair)
    },
    /** Each connection breaks somewhere in what it says next, in the middle of a message if need be. */
    cutWithin(bytesMax, random) {
      for (const pair of pairs) pair.bytesLeft = random.integer(0, bytesMax)
    },
    /** @param {('client' | 'server')[]} senders whose words are lost from now on, with nobody being told */
    drop(senders) {
      dropped = new Set(senders)
      for (const pair of pairs) pair.dropped = new Set([...pair.dropped, ...senders])
    },
    slowDown(ms) {
      slowMs = ms
    },
    /** New connections work. One that lost something never does again: whoever has it must find that out by itself. */
    heal() {
      dropped = nothing
      slowMs = 0
      for (const pair of pairs) pair.bytesLeft = Number.POSITIVE_INFINITY
    },
    async close() {
      this.cut()
      await new Promise((resolve) => server.close(resolve))
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

const nothing = new Set()
const isStuck = ({ dropped }) => dropped.size > 0

function destroy({ client, upstream }) {
  client.destroy()
  upstream.destroy()
}
