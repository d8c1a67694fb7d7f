/** Seeded chance, so that a run that failed can be run again. */

/** @param {number} seed */
export function createRandom(seed) {
  let state = seed >>> 0
  /** From 0 up to 1, by mulberry32. */
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  return {
    next,
    chance: (share) => next() < share,
    /** A whole number from `min` to `max`. */
    integer: (min, max) => min + Math.floor(next() * (max - min + 1)),
    pick: (list) => list[Math.floor(next() * list.length)],
  }
}

/** Chance that depends on the names given and nothing else: the same in every process. */
export function randomFor(...names) {
  let hash = 2166136261
  for (const character of names.join('/')) hash = Math.imul(hash ^ character.charCodeAt(0), 16777619)
  const random = createRandom(hash)
  random.next()
  return random
}
