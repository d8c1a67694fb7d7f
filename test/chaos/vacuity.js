/** What a run really did: how often each operation and fault, and which pairs of them met in time. */
import { readModel } from './checker/model.js'
import { aftermathMs, faults } from './faults/index.js'
import { whyLeftOut } from './faults/left-out.js'
import { countMeetings, meetings } from './meetings.js'
import { operations, pullVerbs } from './operations/index.js'
import { themes } from './themes.js'

/** Of several runs. */
export function addUp(summaries) {
  const total = { counts: {}, pairs: {} }
  for (const summary of summaries) {
    for (const part of ['counts', 'pairs']) {
      for (const [what, count] of Object.entries(summary[part]))
        total[part][what] = (total[part][what] ?? 0) + count
    }
  }
  return total
}

/** @param {object} [answers] the final ones; without them nobody knows what was cancelled or expired */
export function summarize(history, answers) {
  const counts = {}
  const add = (what, by = 1) => {
    counts[what] = (counts[what] ?? 0) + by
  }
  for (const record of history) countRecord(record, add)
  const model = readModel(history)
  Object.assign(counts, countMeetings(model, { history, answers }))
  return { counts, pairs: countPairs(history) }
}

function countRecord({ kind, name, type, fault, phase, role, outcome, connections }, add) {
  if (kind === 'answer') add(`${name} ${type}`)
  if (kind === 'fault' && phase === 'ends') {
    add(`fault ${fault}`)
    if (role !== undefined) add(`fault ${fault} of ${role.replace(/\d+$/, '')}`)
  }
  if (kind === 'begin') add('attempts')
  if (kind === 'end') add(`ended ${outcome}`)
  if (kind === 'theme') add(`theme: ${name}`)
  if (kind === 'settle refused') add('settlements refused')
  if (kind === 'unnoticed') add('half-open connections that nobody noticed', connections)
}

/**
 * An operation has met a fault if it was under way during it or in its aftermath, in a process that the fault was done to, and
 * may have had an effect: one that was refused has met nothing.
 */
function countPairs(history) {
  const [invoked, open, harm, done] = [new Map(), new Map(), [], []]
  for (const { kind, op, at, name, type, roles, fault, phase, pid, role } of history) {
    if (kind === 'invoke') invoked.set(op, at)
    if (kind === 'answer' && (type !== 'fail' || operations[name]?.isRefused))
      done.push({ name, roles: roles ?? [], from: invoked.get(op), to: at })
    if (kind !== 'fault') continue
    if (phase === 'begins') open.set(`${fault} ${pid} ${role}`, at)
    else harm.push({ fault, role, from: open.get(`${fault} ${pid} ${role}`), to: at + aftermathMs * 1_000 })
  }
  const pairs = {}
  for (const { fault, role, from, to } of harm) {
    for (const one of done) {
      if (one.from >= to || one.to <= from || (role !== undefined && !one.roles.includes(role))) continue
      pairs[`${one.name}, ${fault}`] = (pairs[`${one.name}, ${fault}`] ?? 0) + 1
    }
  }
  return pairs
}

/** Operations, faults and pairs that the runs never had, but for those that are left out with a reason. */
export function missing({ counts, pairs }, { secs, isHere = () => true }) {
  const places = { ...mapValues(operations, ({ place }) => place), ...ofPullers }
  const names = Object.keys(places)
  const expected = Object.keys(faults).filter((name) => isHere(faults[name].needs))
  const absent = Object.keys(faults).filter((name) => !expected.includes(name))
  const wantedAnswer = (name) => (operations[name]?.isRefused ? 'fail' : 'ok')
  const never = [
    ...names
      .filter((name) => !(counts[`${name} ${wantedAnswer(name)}`] > 0) && !counts[`${name} info`])
      .map((name) => `${name} never happened`),
    ...expected
      .filter((name) => counts[`fault ${name}`] === undefined)
      .map((name) => `fault ${name} never happened`),
    ...Object.keys(themes)
      .filter((name) => counts[`theme: ${name}`] === undefined)
      .map((name) => `theme "${name}" never happened`),
    ...Object.entries(minimums)
      .map(([name, least]) => [name, Math.max(1, Math.floor((least * secs) / minimumSecs))])
      .filter(([name, least]) => !(counts[name] >= least))
      .map(([name, least]) => `${name}: ${counts[name] ?? 0}, expected ${least} or more`),
  ]
  const apart = names.flatMap((name) =>
    expected
      .filter((fault) => whyLeftOut({ place: places[name], fault }) === undefined)
      .map((fault) => `${name}, ${fault}`)
      .filter((pair) => pairs[pair] === undefined),
  )
  return { never, absent, apart }
}

const ofPullers = Object.fromEntries(pullVerbs.map((name) => [name, 'puller']))
const mapValues = (given, map) =>
  Object.fromEntries(Object.entries(given).map(([name, value]) => [name, map(value)]))

/** What a run of 1,200 s must have seen, or it has shown little; shorter ones in proportion. */
export const minimumSecs = 1_200
export const minimums = {
  ...Object.fromEntries(meetings.map((name) => [name, 4])),
  'kills with a lease held': 30,
  'publishes of unknown fate': 10,
  'settlements refused': 5,
  'retries within a lane': 100,
  redeliveries: 20,
  'lanes that stood blocked for 5 s': 1,
  'faults that overlapped': 30,
}
