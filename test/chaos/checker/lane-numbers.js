/** The numbers that webhooks carry, by which a receiver checks the order of a lane. */
import { hookNames, passing } from '../topology.js'

/** One number of a lane and epoch is given to one event; every attempt and replay of that event may carry it. */
export function findNumberedTwice(model) {
  const found = []
  const owners = new Map()
  for (const { s, id, attempts } of model.deliveries.values()) {
    // A subscription that is made again numbers its lanes anew, and may do so within the same second.
    if (!hookNames.includes(s) || passing.includes(s)) continue
    const numbers = attempts
      .filter(({ epoch, sequence }) => epoch !== undefined && sequence !== undefined)
      .map(({ key, epoch, sequence }) => `lane ${key}, epoch ${epoch}, number ${sequence}`)
    for (const number of new Set(numbers)) {
      const owner = owners.get(`${s} ${number}`)
      if (owner !== undefined)
        found.push({
          rule: 'number twice',
          s,
          id,
          text: `${s} ${number} was given to events ${owner} and ${id}`,
        })
      owners.set(`${s} ${number}`, id)
    }
  }
  return found
}
