import { openSync, readFileSync, writeSync } from 'node:fs'

/**
 * What really happened, as JSON lines in one file that all processes append to. Each line is one write, so it
 * survives SIGKILL and never mixes with another's. Times are microseconds of CLOCK_MONOTONIC, which all
 * processes of a machine share.
 */
export function openRecorder(path) {
  const file = openSync(path, 'a')
  return (kind, fields = {}) => {
    writeSync(file, `${JSON.stringify({ at: monotonicUs(), pid: process.pid, kind, ...fields })}\n`)
  }
}

export function monotonicUs() {
  return Number(process.hrtime.bigint() / 1000n)
}

/** @returns {object[]} in the order of their times */
export function readHistory(path) {
  const lines = readFileSync(path, 'utf8').split('\n')
  // The last one may be half written by a process that was killed just now.
  const records = lines.slice(0, -1).map((line) => JSON.parse(line))
  return records.sort((a, b) => a.at - b.at)
}
