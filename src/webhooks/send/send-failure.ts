import type { ErrorClass } from './webhook-outcome.ts'

/** Why a request got no response. */
export class SendError extends Error {
  override readonly name = 'SendError'
  readonly errorClass: ErrorClass

  constructor(errorClass: ErrorClass, message: string, options?: ErrorOptions) {
    super(message, options)
    this.errorClass = errorClass
  }
}

const messageCharsMax = 300

/** Does not say what a name resolves to: someone who registers endpoints could map our network with it. */
export const blockedMessage = 'The address is not public (POSTHORN_ALLOW_CIDRS admits others)'

const classes: Readonly<Record<string, ErrorClass>> = {
  ECONNREFUSED: 'refused',
  EHOSTUNREACH: 'refused',
  EHOSTDOWN: 'refused',
  ENETUNREACH: 'refused',
  ENETDOWN: 'refused',
  ECONNRESET: 'reset',
  ECONNABORTED: 'reset',
  EPIPE: 'reset',
  UND_ERR_SOCKET: 'reset',
  ETIMEDOUT: 'timeout',
  EPROTO: 'tls',
  HTTPParserError: 'protocol',
  UND_ERR_HEADERS_OVERFLOW: 'protocol',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'protocol',
}

/** A failure on an open connection. An unknown failure counts as `ours`, and not against the endpoint. */
export function toSendError(thrown: unknown): SendError {
  if (thrown instanceof SendError) return thrown
  const { code, message } = describeThrown(thrown)
  return new SendError(classOf(code, message), message.slice(0, messageCharsMax), { cause: thrown })
}

/** A failure while a connection was opened. */
export function toDialError(thrown: unknown, phase: 'connect' | 'tls'): SendError {
  if (thrown instanceof SendError) return thrown
  const { code, message } = describeThrown(thrown)
  const found = classOf(code, message)
  // Whatever keeps a connection from opening, the endpoint cannot be reached.
  const unknown = phase === 'tls' ? 'tls' : 'refused'
  const errorClass = found === 'timeout' ? 'connect_timeout' : found === 'ours' ? unknown : found
  return new SendError(errorClass, message.slice(0, messageCharsMax), { cause: thrown })
}

function classOf(code: string, message: string): ErrorClass {
  // undici gives these the code of a closed socket, but the peer did answer.
  if (code === 'UND_ERR_SOCKET' && /^bad (response|upgrade)/.test(message)) return 'protocol'
  if (code.startsWith('ERR_SSL_') || code.startsWith('ERR_TLS_')) return 'tls'
  return classes[code] ?? 'ours'
}

function describeThrown(thrown: unknown): { code: string; message: string } {
  if (!(thrown instanceof Error)) return { code: '', message: String(thrown) }
  // Errors of undici's parser have a name but no code.
  const code = 'code' in thrown && typeof thrown.code === 'string' ? thrown.code : thrown.name
  return { code, message: thrown.message || code }
}
