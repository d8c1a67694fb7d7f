/** Polls one event and finalizes it, and records that as a pull worker does. */
import { setTimeout as delay } from 'node:timers/promises'
import { digestOf } from '../payload-text.js'
import { outcomeOf } from './outcomes.js'

const subscription = 'polled'
let polls = 0

/** @returns the id of the event, or null if none waited */
export async function pollOnce({ leaseSecs }, { hub, record, config, isCalm }) {
  const no = `poll ${++polls}`
  // The hub remembers the lease and shows no token: this is ours.
  const token = `${config.workerId} ${no}`
  record('lease', { no, s: subscription })
  const event = await poll(hub, {
    leaseSecs,
    unknown: () => record('lease unknown', { no, s: subscription }),
  })
  if (event === null) return null
  const { id, payload, orderingKey: key } = event
  const what = { no, s: subscription, u: payload.u, id, token }
  record('leased', { no, s: subscription, leaseSecs, events: [{ id, u: payload.u, token }] })
  record('begin', { ...what, key, hash: digestOf(event.payloadText) })
  const { outcome, ms } = outcomeOf({ payload, attempt: 1, subscription, config, calm: isCalm() })
  await delay(ms)
  await finalize(hub, what, { record, verb: outcome === 'ok' ? 'complete' : 'bury' })
  return id
}

async function poll(hub, { leaseSecs, unknown }) {
  try {
    return await hub.poll({ subscription, leaseMs: leaseSecs * 1_000 })
  } catch (error) {
    unknown()
    throw error
  }
}

async function finalize(hub, what, { record, verb }) {
  record('end', { ...what, outcome: verb === 'complete' ? 'ok' : 'bury' })
  const errors = verb === 'complete' ? [] : [new Error('by plan')]
  for (let tries = 0; tries < 20; tries++) {
    record('settle', { ...what, verb, byToken: true })
    try {
      await hub.finalize(what.id, errors, { subscription })
      return record('settle ok', { ...what, verb })
    } catch (error) {
      const isRefused = error.code === 'LEASE_LOST'
      record(isRefused ? 'settle refused' : 'settle unknown', { ...what, verb, code: error.code })
      if (isRefused) return
      await delay(50)
    }
  }
}
