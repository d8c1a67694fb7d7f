import { callerVariables as variables } from '../config.ts'
import { payloadBytesMax } from '../domain/payload.ts'
import { PosthornError } from '../errors.ts'
import { badOption, readArguments } from './arguments.ts'
import type { Command } from './command.ts'
import { connect } from './connect.ts'
import { findJsonFault } from './json-fault.ts'

const help = `posthorn publish <type> [<payload>|-] [options]
posthorn publish --title <text> --tags <a,b> [<payload>|-] [options]

Publishes one event to a running server and prints it as JSON. With --title the type may be left out: a single argument is
the payload then. If the server is away or busy, the command tries again; the event is published once.

  <payload>                 JSON; - reads it from standard input; null when left out; -- goes before one such as -5
  --tags <a,b>              work for workers that subscribe to any of these tags
  --title <text>            a title for people
  --ordering-key <key>      events of one key are delivered in the order in which they were published
  --idempotency-key <key>   publishing the same again with the same key changes nothing (a random one)
  --run-at <time>           not before, such as 2027-01-01T00:00:00Z

Environment: POSTHORN_URL (http://127.0.0.1:$PORT, and PORT is 8080), POSTHORN_KEY.

  posthorn publish order.created '{"order": 7}' --ordering-key customer-3
  posthorn publish --title 'Send mail' --tags email '{"n": 1}'
  posthorn publish temperature.changed -- -5`

const known = {
  tags: 'string',
  title: 'string',
  'ordering-key': 'string',
  'idempotency-key': 'string',
  'run-at': 'string',
} as const
const places = ['<type>', '<payload>']

export const publish: Command = {
  help,
  async run(args, out) {
    const { options, positionals } = readArguments(args, { known, places, variables })
    // The server would read a comma alone as no tags.
    if (options.tags?.replaceAll(',', '').trim() === '') throw badOption('--tags', 'a,b', options.tags)
    const { type, payload } = readPlaces(positionals, options.title)
    const text = checkJson(payload === '-' ? await readInput() : (payload ?? 'null'))
    const fields = Object.entries({ ...(type !== undefined && { type }), ...options }).map(
      ([name, value]) => `"${name.replaceAll('-', '_')}":${JSON.stringify(value)}`,
    )
    const answer = await (await connect()).send({
      method: 'POST',
      path: '/events',
      // The payload is stored as it was typed: twenty-digit numbers survive.
      body: `{${fields.join(',')},"payload":${text}}`,
      ...(options['idempotency-key'] === undefined && {
        headers: { 'idempotency-key': crypto.randomUUID() },
      }),
      repeatable: true,
    })
    const { read } = await import('../client/transport.ts')
    read(answer, checkPublished)
    out(answer.text)
    return 0
  },
}

interface Places {
  readonly type: string | undefined
  readonly payload: string | undefined
}

/** The payload comes last. A single argument is the type, unless there is a title. */
function readPlaces([first, second]: readonly string[], title: string | undefined): Places {
  if (title !== undefined && second === undefined) return { type: undefined, payload: first }
  if (first === undefined || first === '')
    throw badOption('<type>', 'given, unless there is a --title', first)
  return { type: first, payload: second }
}

/** Another program may answer at that address, and say 200 to everything. */
function checkPublished(text: string): void {
  const { id } = JSON.parse(text) as { id?: unknown }
  if (!Number.isInteger(id)) throw new Error('There is no id in the answer')
}

/** Refuses input that is not UTF-8 instead of mending it. */
async function readInput(): Promise<string> {
  const parts: Buffer[] = []
  for await (const part of process.stdin) parts.push(part as Buffer)
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.concat(parts))
  } catch (error) {
    throw new PosthornError('BAD_PAYLOAD', { reason: 'standard input is not UTF-8' }, { cause: error })
  }
}

/** The server checks the same. Here the error can say where the fault is in what was typed. */
function checkJson(text: string): string {
  const bytes = Buffer.byteLength(text.trim())
  if (bytes > payloadBytesMax) {
    throw new PosthornError('PAYLOAD_TOO_LARGE', { bytes, bytesMax: payloadBytesMax })
  }
  const reason = findJsonFault(text)
  if (reason !== undefined) throw new PosthornError('BAD_PAYLOAD', { reason })
  return text.trim()
}
