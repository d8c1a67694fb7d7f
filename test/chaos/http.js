/** Calls to the API processes, dead or alive. */
import { httpCallMsMax } from './limits.js'

/**
 * @typedef {{ status: number, json?: any, text?: string, headers?: Headers, sent: boolean }} Answer
 *   `status` 0: none came. `sent` false: the call cannot have arrived.
 * @param {number[]} ports
 */
export function openHttp(ports) {
  return {
    /** @returns {Promise<Answer>} */
    async call(
      random,
      {
        method = 'POST',
        path,
        body,
        text = body === undefined ? undefined : JSON.stringify(body),
        contentType = 'application/json',
        headers = {},
        port = random.pick(ports),
        hangUpMs,
      },
    ) {
      try {
        const response = await fetch(`http://127.0.0.1:${port}${path}`, {
          method,
          headers: { ...(text !== undefined && { 'content-type': contentType }), ...headers },
          ...(text !== undefined && { body: text }),
          signal: AbortSignal.timeout(hangUpMs ?? httpCallMsMax),
        })
        const answer = await response.text()
        const isJson = response.headers.get('content-type')?.includes('json')
        return {
          status: response.status,
          headers: response.headers,
          json: isJson ? JSON.parse(answer) : answer,
          text: answer,
          sent: true,
        }
      } catch (error) {
        return { status: 0, sent: error.cause?.code !== 'ECONNREFUSED' }
      }
    },
  }
}
