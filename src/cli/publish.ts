import { readServerConfig } from '../config.ts'
import { PosthornError } from '../errors.ts'
import { readArguments, required } from './arguments.ts'
import type { Command } from './command.ts'
import { findJsonFault } from './json-fault.ts'

const help = `posthorn publish <type> [<payload>|-] [options]

Publishes one event to a running server and prints it as JSON.

  <payload>                 JSON; - reads it from standard input; null when left out
  --tags <a,b>              makes it work for whoever subscribes to any of these tags
  --title <text>            a title for people
  --ordering-key <key>      events of one key are delivered in the order in which they were published
  --idempotency-key <key>   publishing the same again with the same key changes nothing
  --run-at <time>           not before, such as 2027-01-01T00:00:00Z

Environment: POSTHORN_URL (http://127.0.0.1:$PORT, and PORT is 8080), POSTHORN_API_KEY.

  posthorn publish order.created '{"order": 7}' --ordering-key customer-3`

const known = {
  tags: 'string',
  title: 'string',
  'ordering-key': 'string',
  'idempotency-key': 'string',
  'run-at': 'string',
} as const

export const publish: Command = {
  help,
  async run(args, out) {
    const { options, positionals } = readArguments(args, known, ['<type>', '<payload>'])
    const type = required('<type>', positionals[0])
    const payload = checkJson(positionals[1] === '-' ? await readInput() : (positionals[1] ?? 'null'))
    const fields = Object.entries({ type, ...options }).map(
      ([name, value]) => `"${name.replaceAll('-', '_')}":${JSON.stringify(value)}`,
    )
    const { Transport } = await import('../client/transport.ts')
    const apiKey = process.env.POSTHORN_API_KEY ?? ''
    const server = new Transport({ url: serverUrl(), ...(apiKey !== '' && { apiKey }) })
    const answer = await server.send({
      method: 'POST',
      path: '/events',
      // The payload is stored as it was typed: twenty-digit numbers survive.
      body: `{${fields.join(',')},"payload":${payload}}`,
      repeatable: false,
    })
    out(answer.text)
    return 0
  },
}

function serverUrl(): string {
  const url = process.env.POSTHORN_URL ?? ''
  return url === '' ? `http://127.0.0.1:${readServerConfig().port}` : url
}

async function readInput(): Promise<string> {
  const parts: Buffer[] = []
  for await (const part of process.stdin) parts.push(part as Buffer)
  return Buffer.concat(parts).toString()
}

function checkJson(text: string): string {
  const reason = findJsonFault(text)
  if (reason !== undefined) throw new PosthornError('BAD_PAYLOAD', { reason })
  return text.trim()
}
