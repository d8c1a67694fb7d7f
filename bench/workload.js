/** What every contender is given, and the proof of what it did with it. */

const note = 'x'.repeat(64)

/** Payloads of about 100 bytes; with `keyCount` each event has one of that many ordering keys. */
export function makeEvents(count, keyCount = 0) {
  return Array.from({ length: count }, (_, n) => makeEvent(n, keyCount))
}

export function makeEvent(n, keyCount = 0) {
  const key = keyCount === 0 ? null : `key-${keyOf(n, keyCount)}`
  return { key, payload: { n, order: `order-${n}`, note } }
}

/** Notes each run cheaply; `done` resolves when every event has run at least once. */
export function createRecord(count, keyCount = 0) {
  const runs = new Uint8Array(count)
  const before = previousOfKey(count, keyCount)
  const last = new Int32Array(keyCount).fill(-1)
  const { promise: done, resolve } = deferred()
  const faults = { doubled: 0, misordered: 0, overlapping: 0, unknown: 0 }
  let distinct = 0

  return {
    done,
    faults,
    get distinct() {
      return distinct
    },
    /** To be called when the handler of event `n` starts. */
    ran(n) {
      if (!(n >= 0 && n < count)) {
        faults.unknown++
        return
      }
      if (keyCount > 0) {
        const key = keyOf(n, keyCount)
        if (last[key] !== before[n]) faults.misordered++
        last[key] = n
      }
      if (runs[n] > 0) {
        faults.doubled++
        return
      }
      runs[n] = 1
      distinct++
      if (distinct === count) resolve()
    },
    /** Throws unless every event ran exactly once and, with keys, in the order of its key. */
    verify(name) {
      const all = { lost: count - distinct, ...faults }
      if (Object.values(all).every((fault) => fault === 0)) return
      throw new Error(`${name}, of ${count} events: ${JSON.stringify(all)}`)
    },
  }
}

/** A record whose handlers take a turn of the event loop, so that two of one key at the same time are seen. */
export function createSerialRecord(count, keyCount) {
  const record = createRecord(count, keyCount)
  const running = new Uint8Array(keyCount)
  return Object.assign(Object.create(record), {
    async ran(n) {
      const key = keyOf(n, keyCount)
      if (running[key] > 0) record.faults.overlapping++
      running[key]++
      await new Promise(setImmediate)
      running[key]--
      record.ran(n)
    },
  })
}

/** Waits for `promise`, but no longer than `limitMs`, so that a lost event ends the bench instead of hanging it. */
export async function within(limitMs, what, promise) {
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took longer than ${limitMs / 1000} s`)), limitMs)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

/** Asks `isTrue` every few milliseconds; the pause bounds the error of a measurement that ends with it. */
export async function waitUntil(isTrue, { pauseMs = 5, limitMs = 60_000, what = 'the condition' } = {}) {
  const end = performance.now() + limitMs
  while (!(await isTrue())) {
    if (performance.now() > end) throw new Error(`${what} was not reached within ${limitMs / 1000} s`)
    await pause(pauseMs)
  }
}

export function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** Also of a generator: a million events need not exist at once. */
export function* inBatches(items, size) {
  let batch = []
  for (const item of items) {
    batch.push(item)
    if (batch.length === size) {
      yield batch
      batch = []
    }
  }
  if (batch.length > 0) yield batch
}

/** CLOCK_MONOTONIC, which all processes of one machine share. */
export function monotonicMs() {
  return Number(process.hrtime.bigint()) / 1e6
}

/** Spreads the events over the keys without a pattern: neighbours may share one. */
function keyOf(n, keyCount) {
  return (Math.imul(n + 1, 2_654_435_761) >>> 4) % keyCount
}

function previousOfKey(count, keyCount) {
  const before = new Int32Array(keyCount > 0 ? count : 0)
  const last = new Int32Array(keyCount).fill(-1)
  for (let n = 0; n < before.length; n++) {
    const key = keyOf(n, keyCount)
    before[n] = last[key]
    last[key] = n
  }
  return before
}

function deferred() {
  let resolve
  const promise = new Promise((settle) => {
    resolve = settle
  })
  return { promise, resolve }
}
