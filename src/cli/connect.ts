import type { PosthornClient } from '../client/client.ts'
import type { ClientOptions, Transport } from '../client/transport.ts'
import { readCallerConfig, readPort } from '../config.ts'
import { callerOptions } from '../options/table.ts'
import { namingOptions } from './arguments.ts'

export async function connect(): Promise<Transport> {
  const { Transport } = await import('../client/transport.ts')
  return withAddress((options) => new Transport(options))
}

export async function openClient(): Promise<PosthornClient> {
  const { PosthornClient } = await import('../client/client.ts')
  return withAddress((options) => new PosthornClient(options))
}

export function serverUrl(): string {
  return readCallerConfig().url ?? `http://127.0.0.1:${readPort()}`
}

function withAddress<T>(open: (options: ClientOptions) => T): T {
  const { apiKey } = readCallerConfig()
  const names = { url: callerOptions.url.variable, apiKey: callerOptions.apiKey.variable }
  return namingOptions(names, () => open({ url: serverUrl(), apiKey }))
}
