import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Command, EventShape, LeaseCommand, SettleItem } from './commands.ts'
import { runOnce } from './explore.ts'
import { openStage, type Stage } from './stage.ts'

const admit: Command = { do: 'admit', process: 0 }

/** What the simulation has found and what lies next to it, each as the shortest list of commands that shows it. */
const found: [symptom: string, commands: Command[]][] = [
  ['a batch is leased in the order in which it was given', [publish({}, {}, {}), lease({ eventsMax: 2 })]],
  [
    'idempotency keys do not change the order of a batch in its lane',
    [
      publish(
        { key: 'k1' },
        { key: 'k1', idempotency: { key: 'i2', variant: 0 } },
        { key: 'k1', idempotency: { key: 'i1', variant: 0 } },
      ),
      admit,
      lease({ laneMax: 3 }),
    ],
  ],
  [
    'a reset leaves alone what has not begun',
    [publish({}), lease({}), { do: 'reset', event: 0 }, settle({})],
  ],
  [
    'a reset counts an attempt that had begun',
    [publish({}), lease({ begins: 'granted' }), { do: 'reset', event: 0 }],
  ],
  [
    'a reset of what waits behind the head of a leased lane does not take the head from its worker',
    [
      publish({ key: 'k1' }, { key: 'k1' }),
      admit,
      lease({ laneMax: 2 }),
      { do: 'reset', event: 1 },
      lease({}),
      settle({}),
    ],
  ],
  [
    'what a worker hands back is not counted as an attempt',
    [publish({}), lease({ begins: 'granted' }), settle({ outcome: 'release' }), lease({ begins: 'granted' })],
  ],
  [
    'failures stay counted when the next attempt completes',
    [publish({}), lease({}), settle({ outcome: 'fail' }), move(6), admit, lease({}), settle({})],
  ],
  [
    'a run that is released has the age of its oldest delivery that is left',
    [
      publish({}, { lifetime: 7 }, {}),
      lease({ eventsMax: 2 }),
      settle({}),
      { do: 'release', lease: 1 },
      lease({ eventsMax: 1 }),
    ],
  ],
  [
    'a run that is reclaimed has the age of its oldest delivery that is left',
    [publish({}, {}), lease({ eventsMax: 2 }), settle({}), move(3), { do: 'reclaim' }],
  ],
  [
    'a lane that is reset has the age of its oldest delivery that is left',
    [
      publish({ key: 'k1' }, { key: 'k1' }),
      admit,
      lease({ laneMax: 2 }),
      settle({}),
      { do: 'heartbeat', lease: 1, minutes: 3, begun: 1 },
      { do: 'reset', event: 0 },
    ],
  ],
  [
    'a late completion counts the attempt that nobody knew had begun',
    [publish({}), lease({}), move(3), { do: 'reclaim' }, settle({})],
  ],
  [
    'a late completion does not count an attempt twice that the reclaim has charged',
    [publish({}), lease({ begins: 'granted' }), move(3), { do: 'reclaim' }, settle({})],
  ],
  [
    'a cancelled delivery keeps the attempts it had before it was redriven',
    [
      publish({ key: 'k1' }, { key: 'k1' }, { key: 'k1' }),
      admit,
      lease({ begins: 'granted' }),
      settle({ outcome: 'bury' }),
      { do: 'redrive', letters: [0] },
      admit,
      { do: 'cancel', events: [0] },
    ],
  ],
  [
    'a discarded head keeps its attempts',
    [
      publish({ type: 'b', key: 'k1' }),
      admit,
      lease({ subscriptions: [2], begins: 'granted' }),
      settle({ outcome: 'bury' }),
      { do: 'unblock', lane: 0, verb: 'discard' },
    ],
  ],
  [
    'of the suspects of several subscriptions one is leased at a time',
    [
      publish({}),
      lease({ subscriptions: [1, 2], begins: 'granted' }),
      move(3),
      { do: 'reclaim' },
      lease({ subscriptions: [1, 2] }),
    ],
  ],
  [
    'a long run that is about to expire leaves half of a lease to others',
    [
      publish({ lifetime: 4 }, { lifetime: 4 }, { lifetime: 4 }),
      publish({}),
      move(4),
      lease({ eventsMax: 2 }),
    ],
  ],
  [
    'what was committed before a publish began stands before it, also if its transaction is older',
    [
      publishIn(0, {}),
      publish({ key: 'k1' }),
      publishIn(0, { key: 'k1' }),
      end(0),
      admit,
      lease({ laneMax: 2 }),
    ],
  ],
  [
    'a transaction that commits late is not passed over',
    [publishIn(0, { key: 'k1' }), publish({ key: 'k2' }), admit, end(0), admit, lease({})],
  ],
  [
    'what is redriven goes behind what has arrived before',
    [
      publish({ key: 'k1' }),
      admit,
      lease({ begins: 'granted' }),
      settle({ outcome: 'bury' }),
      publish({ key: 'k1' }),
      { do: 'redrive', letters: [0] },
      admit,
    ],
  ],
  [
    'a lease by tags from two subscriptions gets its share of both',
    [
      publish({ type: 'a.c', tags: ['blue'] }),
      lease({ subscriptions: [0, 4], eventsMax: 1, tags: ['blue'] }),
    ],
  ],
  [
    'what is redriven later goes behind what was redriven before',
    [
      publish({ key: 'k1' }, { key: 'k1' }, { key: 'k1' }),
      admit,
      lease({ begins: 'granted' }),
      settle({ outcome: 'bury' }),
      lease({ begins: 'granted' }),
      settle({ outcome: 'bury' }),
      { do: 'redrive', letters: [1] },
      { do: 'redrive', letters: [0] },
      admit,
    ],
  ],
  [
    'cancelling one of several delayed events leaves the others delayed',
    [publish({ delay: 3 }, { delay: 3 }), { do: 'cancel', events: [0] }],
  ],
  [
    'a cancelled attempt that fails is not tried again',
    [publish({}, {}), lease({ begins: 'granted' }), cancel(0), settle({ outcome: 'fail', twice: true })],
  ],
  [
    'a cancelled attempt that snoozes is not tried again',
    [publish({}), lease({}), cancel(0), settle({ outcome: 'snooze' })],
  ],
  [
    'a cancelled attempt that is handed back is not tried again',
    [publish({}), lease({ begins: 'granted' }), cancel(0), settle({ outcome: 'release' })],
  ],
  ['a cancelled attempt that completes is completed', [publish({}), lease({}), cancel(0), settle({})]],
  [
    'a lane goes on behind a cancelled head that fails',
    [
      publish({ key: 'k1' }, { key: 'k1' }, { key: 'k1' }),
      admit,
      lease({ laneMax: 3 }),
      cancel(0),
      settle({ outcome: 'fail' }),
      lease({}),
    ],
  ],
  [
    'what was cancelled behind the head of a leased lane ends when the head fails',
    [
      publish({ key: 'k1' }, { key: 'k1' }, { key: 'k1' }),
      admit,
      lease({ laneMax: 3 }),
      cancel(1),
      settle({ outcome: 'fail' }),
    ],
  ],
  [
    'what was cancelled behind the head of a leased lane ends when the head blocks it',
    [
      publish({ type: 'b', key: 'k1' }, { type: 'b', key: 'k1' }),
      admit,
      lease({ subscriptions: [2], laneMax: 2 }),
      cancel(1),
      settle({ outcome: 'bury' }),
    ],
  ],
  [
    'a lane of which all was cancelled lets the next in when it is given up',
    [
      publish({ key: 'k1' }, { key: 'k1' }),
      admit,
      lease({ laneMax: 2 }),
      publish({ key: 'k1' }),
      admit,
      cancel(0, 1),
      settle({ outcome: 'release' }),
      admit,
      lease({}),
    ],
  ],
  [
    'what was cancelled does not come back with a run that is handed back',
    [publish({}, {}), lease({}), cancel(1), { do: 'release', lease: 0 }, lease({})],
  ],
  [
    'what was cancelled does not come back after a crash',
    [publish({}, {}, {}), lease({ begins: 'granted' }), cancel(1), move(3), { do: 'reclaim' }],
  ],
  [
    'what was cancelled is not buried by a crash, and its lane goes on',
    [
      publish({ type: 'b', key: 'k1' }, { type: 'b', key: 'k1' }),
      admit,
      lease({ subscriptions: [2], begins: 'granted' }),
      settle({ outcome: 'fail' }),
      move(6),
      admit,
      lease({ subscriptions: [2], begins: 'granted' }),
      cancel(0),
      move(3),
      { do: 'reclaim' },
      lease({ subscriptions: [2] }),
    ],
  ],
  [
    'what was cancelled does not come back with a reset, also behind the head of its lane',
    [
      publish({ key: 'k1' }, { key: 'k1' }, { key: 'k1' }),
      admit,
      lease({ laneMax: 3 }),
      { do: 'heartbeat', lease: 1, minutes: 3, begun: 1 },
      cancel(0, 2),
      { do: 'reset', event: 0 },
      lease({}),
    ],
  ],
  [
    'a worker that has handed back a delivery late can no longer settle it',
    [
      publish({ key: 'k1' }, { key: 'k1' }),
      admit,
      lease({ laneMax: 2 }),
      move(3),
      { do: 'reclaim' },
      settle({ outcome: 'release' }),
      settle({ from: 'any', claim: 0 }),
    ],
  ],
  [
    'a failure that is reported twice at once makes one retry',
    [publish({}, {}), lease({}), settle({ outcome: 'fail', twice: true })],
  ],
  [
    'a head that is completed twice at once does not take the next of its lane along',
    [
      publish({ key: 'k1' }, { key: 'k1' }, { key: 'k1' }),
      admit,
      lease({ laneMax: 3 }),
      settle({ twice: true }),
    ],
  ],
  ['an event that only has tags is work', [publish({ type: null, tags: ['red'] })]],
  [
    'a limit on concurrency alone is no limit on the rate',
    [publish({ type: 'l' }, { type: 'l' }), lease({ subscriptions: [4] })],
  ],
]

let stage: Stage
beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage.close())

test.each(found)('%s', async (_, commands) => {
  expect((await runOnce(stage, commands))?.error.message).toBeUndefined()
})

function publish(...shapes: Partial<EventShape>[]): Command {
  const events = shapes.map((shape) => ({
    type: 'a.b',
    tags: null,
    key: null,
    gate: null,
    delay: 0,
    lifetime: 0,
    maxRetries: null,
    idempotency: null,
    ...shape,
  }))
  return { do: 'publish', events, transaction: null }
}

function publishIn(transaction: number, ...shapes: Partial<EventShape>[]): Command {
  return { ...publish(...shapes), transaction } as Command
}

function end(transaction: number): Command {
  return { do: 'end', transaction, how: 'commit' }
}

function lease(asked: Partial<LeaseCommand>): Command {
  return {
    do: 'lease',
    worker: 0,
    subscriptions: [1],
    eventsMax: 8,
    laneMax: 1,
    suspects: true,
    minutes: 1,
    begins: 'reported',
    tags: null,
    each: false,
    ...asked,
  }
}

function settle(item: Partial<SettleItem>): Command {
  return {
    do: 'settle',
    items: [
      { claim: 0, from: 'held', outcome: 'complete', minutes: 1, twice: false, shortCuts: 'none', ...item },
    ],
  }
}

function cancel(...events: number[]): Command {
  return { do: 'cancel', events }
}

function move(minutes: number): Command {
  return { do: 'move', minutes }
}
