/**
 * Who subscribes to what. Each subscription has a type of its own, so that a theme can aim at it; `all.*` goes to
 * several. Waits are short: a run has seconds for what takes an application hours.
 */

const retry = { kind: 'fixed', delayMs: 60, failuresMax: 4 }
const leaseMs = 3_000
const timeoutMs = 1_500

/** Handlers, the same in every worker. `plan` says how often an attempt ends how: see processes/outcomes.js. */
export const handlers = [
  {
    name: 'plain',
    types: ['plain.*', 'all.*', 'typed.*'],
    options: { concurrency: 8, leaseMs, timeoutMs, retry },
  },
  {
    name: 'gated',
    types: ['gated.*', 'all.*'],
    options: { concurrency: 8, leaseMs, timeoutMs, retry, keyConcurrency: 2 },
  },
  {
    name: 'block',
    types: ['block.*'],
    options: { concurrency: 8, leaseMs, timeoutMs, retry, onExhausted: 'block' },
  },
  { name: 'ledger', types: ['ledger.*'], options: { concurrency: 8, leaseMs, timeoutMs, retry } },
  {
    name: 'pointer',
    types: ['pointer.*'],
    options: { concurrency: 8, leaseMs, timeoutMs, retry, orderingKey: '/payload/p' },
  },
  // What it asks for changes, and so does whether it is there at all.
  { name: 'picky', types: ['picky.*'], options: { concurrency: 8, leaseMs, timeoutMs, retry } },
  // Nobody does anything to it: how long it takes says whether the hub is well.
  { name: 'probe', types: ['probe.*'], options: { concurrency: 8, leaseMs, timeoutMs, retry } },
]

export const memoryHandler = {
  name: 'memory',
  types: ['memory.*'],
  // Longer than the claim of the queue lasts: only the claim keeps a frozen owner from going on.
  options: { concurrency: 8, leaseMs: 20_000, timeoutMs, retry, storage: 'memory', persistenceThreshold: 20 },
}

export const patience = { retry_delay_seconds: 0.06, max_retries: 4, lease_seconds: 2 }

/** Subscriptions that are made over HTTP. The work queue is there from the start. */
export const pulls = [
  { name: 'pulled', event_types: ['pulled.*', 'all.*'], via: 'pull', ...patience },
  { name: 'temp', event_types: ['temp.*'], via: 'pull', ...patience },
  { name: 'client', event_types: ['client.*'], via: 'pull', ...patience },
  { name: 'polled', event_types: ['polled.*'], via: 'pull', ...patience },
]

export const hookTimeoutMs = 1_500

/** Statuses that mean something else than usual: see processes/receiver.js. */
export const outcomes = { 418: 'retry', 409: 'deliver', 507: 'bury' }

const hook = {
  via: 'webhook',
  timeout_ms: hookTimeoutMs,
  retry_backoff_seconds: [0.06, 0.06, 0.06],
  lease_seconds: 4,
  outcomes,
}

export const hooks = [
  { name: 'hook', event_types: ['hook.*', 'all.*'], ...hook },
  { name: 'temphook', event_types: ['temphook.*'], ...hook },
]

/** Which subscriptions want an event of a type, by the first part of the type. `work` is owed by tags. */
export const owedByType = {
  plain: ['plain'],
  gated: ['gated'],
  block: ['block'],
  ledger: ['ledger'],
  pointer: ['pointer'],
  memory: ['memory'],
  pulled: ['pulled'],
  temp: ['temp'],
  client: ['client'],
  polled: ['polled'],
  hook: ['hook'],
  temphook: ['temphook'],
  picky: ['picky'],
  typed: ['plain'],
  probe: ['probe'],
  all: ['plain', 'gated', 'pulled', 'hook'],
}

/** Families of types that anybody may publish: those of the memory queue only its process. */
export const openFamilies = Object.keys(owedByType).filter(
  (family) => family !== 'memory' && family !== 'probe',
)
export const allSubscriptions = [
  ...handlers.map(({ name }) => name).filter((name) => name !== 'probe'),
  ...['memory', 'pulled', 'temp', 'client', 'polled', 'hook', 'temphook', 'work'],
]
/** Those that are deleted and made again. */
export const passing = ['temp', 'temphook', 'picky']
/** Those whose attempts go over HTTP, so that the trouble of a server is theirs too. */
export const remote = ['hook', 'temphook', 'pulled', 'temp', 'client', 'work']
export const hookNames = hooks.map(({ name }) => name)
/** Those whose settlements only a server sees. */
export const served = [...hookNames, 'client']
/** Those that an operator may pause, drain and configure here. */
export const queueNames = allSubscriptions.filter((name) => !passing.includes(name))
export { leaseMs, timeoutMs }
