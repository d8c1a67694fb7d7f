/** Says when this process did not get to run for a while: whatever lease it had may have ended, and nobody is to blame. */
import { monotonicUs } from '../../crash/support/recorder.js'

const everyMs = 100
const noticedMs = 400

export function watchStalls(record) {
  let last = monotonicUs()
  setInterval(() => {
    const now = monotonicUs()
    if (now - last > noticedMs * 1000) record('stall', { from: last, to: now })
    last = now
  }, everyMs).unref()
}
