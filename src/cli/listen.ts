import { randomBytes } from 'node:crypto'
import type { PosthornClient } from '../client/client.ts'
import { callerVariables as variables } from '../config.ts'
import { type Format, formats } from '../domain/endpoint.ts'
import { readSecrets, secretPrefix } from '../webhooks/receive/signature.ts'
import { badOption, namingOptions, readArguments } from './arguments.ts'
import type { Command, Out } from './command.ts'
import { openClient, serverUrl } from './connect.ts'
import { createForwarder } from './forwarder.ts'
import { showDeliveries } from './show-deliveries.ts'
import { watchSignals } from './stop-signals.ts'
import { createTemporary, deleteLeftBehind, deleteSubscription } from './temporary-subscription.ts'

const help = `posthorn listen [--forward <url>] [options]

Shows events of a running server as they come, one line for each attempt, until Ctrl-C. With --forward it sends them to
a webhook receiver as a subscriber would get them: signed, and again if they fail. It is for development, so any http
or https address will do, also one of this machine.

  --forward <url>     where to send them, such as http://localhost:3000/hooks; only shown without it
  --types <a,b.*>     events of these types (*, which is all that have one)
  --format <format>   standard, raw, cloudevents or cloudevents-binary (standard)
  --secret <whsec_…>  what to sign with (a new one, which is printed)
  --verbose           headers and bodies as well

It makes a pull subscription listen-<host>-<pid> and deletes it when it ends; what waits for it then is cancelled.

Environment: POSTHORN_URL (http://127.0.0.1:$PORT, and PORT is 8080), POSTHORN_KEY (scopes manage, consume and read).

  posthorn listen --forward http://localhost:3000/hooks --types 'invoice.*'`

const known = {
  forward: 'string',
  types: 'string',
  format: 'string',
  secret: 'string',
  verbose: 'boolean',
} as const

/** How long attempts under way may take after a signal, before they are handed back. */
const graceMs = 1_000

export const listen: Command = {
  help,
  async run(args, out) {
    const options = readOptions(args)
    const client = await openClient()
    const signals = watchSignals()
    const stop = new AbortController()
    void signals.received.then(() => stop.abort())
    try {
      await listenUntil(stop.signal, { client, out, ...options })
      return 0
    } finally {
      signals.release()
    }
  },
}

interface ListenOptions {
  readonly types: readonly string[]
  readonly forward: string | undefined
  readonly format: Format
  readonly secret: { readonly text: string; readonly bytes: Buffer; readonly isNew: boolean }
  readonly detail: 'lines' | 'everything'
}

async function listenUntil(
  signal: AbortSignal,
  { client, out, ...options }: ListenOptions & { client: PosthornClient; out: Out },
): Promise<void> {
  const { forward: url, format, secret, detail, types } = options
  await deleteLeftBehind(client, out)
  const subscription = await createTemporary(client, types)
  try {
    const send =
      url === undefined ? undefined : createForwarder({ url, format, secret: secret.bytes, now: Date.now })
    const handler = showDeliveries({ client, subscription, send, detail, out, now: Date.now })
    const worker = client.worker({ subscription: subscription.name, log: errorsOnly }, handler)
    for (const line of greeting(subscription.name, options)) out(line)
    await worker.run(signal, { graceMs })
  } finally {
    await deleteSubscription(client, subscription.id)
  }
}

function greeting(name: string, { types, forward, secret }: ListenOptions): string[] {
  const target = forward === undefined ? '' : ` and forwards them to ${forward}`
  return [
    `${name} listens for ${types.join(', ')} at ${serverUrl()}${target}; Ctrl-C ends it`,
    ...(forward !== undefined && secret.isNew ? [`They are signed with ${secret.text}`] : []),
  ]
}

/** Attempts have their own lines. An error of the worker means that the server is away. */
const errorsOnly = {
  warn: () => undefined,
  error: ({ error }: { error?: unknown }, text: string) => {
    const reason = error instanceof Error ? error.message : String(error)
    process.stderr.write(`${text}: ${reason}\n`)
  },
}

function readOptions(args: readonly string[]): ListenOptions {
  const { options } = readArguments(args, { known, variables })
  const { forward, types = '*', verbose } = options
  return {
    types: readTypes(types),
    forward: forward === undefined ? undefined : readUrl(forward),
    format: readFormat(options.format),
    secret: readSecret(options.secret),
    detail: verbose === undefined ? 'lines' : 'everything',
  }
}

function readTypes(text: string): string[] {
  const types = text.split(',').map((type) => type.trim())
  if (types.some((type) => type === '')) throw badOption('--types', 'a,b.*', text)
  return types
}

function readUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw badOption('--forward', 'an http or https URL', text)
  }
  // fetch refuses such a URL. The URL is not shown: it holds a password.
  if (url.username !== '' || url.password !== '') {
    throw badOption('--forward', 'without a name and password', 'one with')
  }
  return url.href
}

function readFormat(text = 'standard'): Format {
  const format = formats.find((one) => one === text)
  if (format === undefined) throw badOption('--format', `one of ${formats.join(', ')}`, text)
  return format
}

function readSecret(given: string | undefined): ListenOptions['secret'] {
  const text = given ?? `${secretPrefix}${randomBytes(24).toString('base64')}`
  const [bytes] = namingOptions({ secrets: '--secret' }, () => readSecrets(text)) as [Buffer]
  return { text, bytes, isNew: given === undefined }
}
