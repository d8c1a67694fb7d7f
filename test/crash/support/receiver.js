import { randomBytes } from 'node:crypto'
import { scheduleRetry } from '../../../dist/domain/retry.js'
import { defineSubscription } from '../../../dist/domain/subscription.js'

/** What a hub needs that sends webhooks to this machine. */
export function webhookOptions() {
  return { secretKey: randomBytes(32).toString('base64'), allowCidrs: '127.0.0.0/8' }
}

/** A process that receives webhooks: see workers/receiver.js. Its port stays the same while it is closed. */
export async function openReceiver(world, { seed, behaviour }) {
  const process = await world.startProcess('receiver.js', { seed, behaviour })
  const ask = async (what, more = {}) => {
    const answer = process.answer()
    process.send({ ask: what, ...more })
    return answer
  }
  const secrets = {}
  const { port } = await ask('know', { secrets })
  return {
    /** A subscriber that is sent all events of a type. */
    async subscribe(name, { type, retryMs, ...options }) {
      const { secret } = await world.hub.endpoints.create({
        definition: defineSubscription('webhook', [type], {
          name,
          retry: scheduleRetry(retryMs),
          ...options,
        }),
        endpoint: { url: `http://127.0.0.1:${port}/${name}`, headers: {}, format: 'standard', rules: {} },
        status: 'active',
        secret: undefined,
      })
      secrets[name] = secret
      await ask('know', { secrets })
    },
    open: () => ask('open'),
    close: () => ask('close'),
    stop: () => process.stop(),
  }
}
