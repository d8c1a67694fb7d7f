import type { PosthornClient } from '../client/client.ts'
import type { ClientOptions, Transport } from '../client/transport.ts'
import { readPort } from '../config.ts'
import { asTyped } from './arguments.ts'

/** What a command that calls a running server reads from the environment. */
export const serverVariables = ['POSTHORN_URL', 'POSTHORN_KEY', 'PORT']

export async function connect(): Promise<Transport> {
  const { Transport } = await import('../client/transport.ts')
  return withAddress((options) => new Transport(options))
}

export async function openClient(): Promise<PosthornClient> {
  const { PosthornClient } = await import('../client/client.ts')
  return withAddress((options) => new PosthornClient(options))
}

export function serverUrl(): string {
  return process.env.POSTHORN_URL || `http://127.0.0.1:${readPort()}`
}

function withAddress<T>(open: (options: ClientOptions) => T): T {
  const { POSTHORN_KEY: apiKey } = process.env
  try {
    return open({ url: serverUrl(), ...(apiKey && { apiKey }) })
  } catch (error) {
    throw asTyped(error, { url: 'POSTHORN_URL', apiKey: 'POSTHORN_KEY' })
  }
}
