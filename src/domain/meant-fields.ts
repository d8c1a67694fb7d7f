/** What others call a field of an event; no slip of a letter leads there. */
export const meantFields: Readonly<Record<string, string>> = {
  ...{ delay: 'runAt', delayMs: 'runAt', delaySeconds: 'runAt', startAfter: 'runAt', ttl: 'expiresAt' },
  ...{ group: 'orderingKey', groupId: 'orderingKey', partitionKey: 'orderingKey', key: 'orderingKey' },
  ...{ name: 'type', pattern: 'type', topic: 'type', data: 'payload', body: 'payload' },
  ...{ eventType: 'type', eventId: 'idempotencyKey' },
  ...{ retries: 'maxRetries', retryLimit: 'maxRetries', attempts: 'maxRetries' },
}
