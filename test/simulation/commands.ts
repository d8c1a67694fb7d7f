import fc from 'fast-check'

/**
 * A command is plain data. Whatever it refers to (an event, a claim, a lane) it names by an index that is taken
 * modulo what there is, so that a list still means something after commands were left out of it.
 */
export type Command =
  | PublishCommand
  | { readonly do: 'end'; readonly transaction: number; readonly how: 'commit' | 'rollback' }
  | { readonly do: 'admit'; readonly process: number }
  | LeaseCommand
  | { readonly do: 'heartbeat'; readonly lease: number; readonly minutes: number; readonly begun: number }
  | { readonly do: 'release'; readonly lease: number }
  | { readonly do: 'settle'; readonly items: readonly SettleItem[] }
  | CompleteInCommand
  | { readonly do: 'crash'; readonly worker: number }
  | { readonly do: 'move'; readonly minutes: number }
  | { readonly do: 'reclaim' }
  | { readonly do: 'expire' }
  | { readonly do: 'redrive'; readonly letters: readonly number[] }
  | { readonly do: 'reset'; readonly event: number }
  | { readonly do: 'cancel'; readonly events: readonly number[] }
  | { readonly do: 'bury'; readonly delivery: number }
  | { readonly do: 'hasten'; readonly delivery: number }
  | { readonly do: 'unblock'; readonly lane: number; readonly verb: 'skip' | 'discard' | 'retry' }

export interface PublishCommand {
  readonly do: 'publish'
  readonly events: readonly EventShape[]
  readonly transaction: number | null
  /** A worker of the publishing process that waits for work. */
  readonly idle?: number | null
}

export interface EventShape {
  /** Null: an event that only has tags. */
  readonly type: string | null
  readonly tags: readonly string[] | null
  readonly key: string | null
  readonly gate: string | null
  /** Minutes until it is due and until it expires; 0: at once, never. */
  readonly delay: number
  readonly lifetime: number
  readonly maxRetries: number | null
  readonly idempotency: { readonly key: string; readonly variant: number } | null
}

export interface LeaseCommand {
  readonly do: 'lease'
  readonly worker: number
  readonly subscriptions: readonly number[]
  readonly eventsMax: number
  readonly laneMax: number
  readonly suspects: boolean
  readonly minutes: number
  readonly begins: 'granted' | 'reported'
  readonly tags: readonly string[] | null
  /** One delivery each for several pull workers, in one statement. */
  readonly each: boolean
}

export interface SettleItem {
  readonly claim: number
  /**
   * `held`: one that its worker may settle. `late`: one whose lease has ended, but was not replaced. `any`: whatever
   * it ever had. `forged`: with a token it never had.
   */
  readonly from: 'held' | 'late' | 'any' | 'forged'
  readonly outcome: 'complete' | 'fail' | 'snooze' | 'bury' | 'release'
  readonly minutes: number
  /** Sent twice in the same call. */
  readonly twice: boolean
  /** Of the first item: with the short cuts that the hub takes for successes, or those of pull workers. */
  readonly shortCuts: 'none' | 'hub' | 'pull'
}

/** Settles in a transaction of the worker's own, while others look after leases. */
export interface CompleteInCommand {
  readonly do: 'completeIn'
  readonly claim: number
  readonly meanwhile: 'nothing' | 'reclaim' | 'heartbeat'
  readonly how: 'commit' | 'rollback'
}

export type Profile = 'alone' | 'overlapping'

const commandsMax = 80

/** `overlapping`: publishers keep transactions open while everything else goes on. */
export function commandLists(profile: Profile): fc.Arbitrary<Command[]> {
  return fc.noBias(fc.array(command(profile), { minLength: 1, maxLength: commandsMax, size: 'max' }))
}

const index = fc.nat({ max: 30 })
const minutes = fc.integer({ min: 1, max: 4 })
const tags = fc.constantFrom(null, null, ['red'], ['blue'], ['red', 'blue'])

const eventShape: fc.Arbitrary<EventShape> = fc.record({
  type: fc.constantFrom('a.b', 'a.c', 'b', 'g', 'l', null),
  tags,
  key: fc.constantFrom(null, null, 'k1', 'k1', 'k2'),
  gate: fc.constantFrom(null, 'g1', 'g2'),
  delay: fc.constantFrom(0, 0, 0, 0, 1, 3),
  lifetime: fc.constantFrom(0, 0, 0, 4, 7),
  maxRetries: fc.constantFrom(null, null, 1, 2),
  idempotency: fc.oneof(
    { weight: 6, arbitrary: fc.constant(null) },
    {
      weight: 1,
      arbitrary: fc.record({ key: fc.constantFrom('i3', 'i2', 'i1'), variant: fc.constantFrom(0, 0, 0, 1) }),
    },
  ),
})

/** Half of the batches are of one kind: those share a run. */
const batch = fc.oneof(
  fc.array(eventShape, { minLength: 1, maxLength: 5, size: 'max' }),
  fc
    .tuple(eventShape, fc.integer({ min: 2, max: 6 }))
    .map(([shape, size]) => new Array<EventShape>(size).fill({ ...shape, idempotency: null })),
)

const settleItem: fc.Arbitrary<SettleItem> = fc.record({
  claim: index,
  from: fc.constantFrom('held', 'held', 'held', 'late', 'any', 'forged'),
  outcome: fc.constantFrom('complete', 'complete', 'complete', 'fail', 'fail', 'snooze', 'bury', 'release'),
  minutes,
  twice: fc.constantFrom(false, false, false, false, true),
  shortCuts: fc.constantFrom('none', 'hub', 'pull'),
})

const lease: fc.Arbitrary<LeaseCommand> = fc.record({
  do: fc.constant('lease'),
  worker: fc.nat({ max: 2 }),
  subscriptions: fc.uniqueArray(fc.nat({ max: 4 }), { minLength: 1, maxLength: 5 }),
  eventsMax: fc.integer({ min: 1, max: 8 }),
  laneMax: fc.integer({ min: 1, max: 3 }),
  suspects: fc.constantFrom(true, true, false),
  minutes,
  begins: fc.constantFrom('granted', 'reported'),
  tags,
  each: fc.boolean(),
})

function command(profile: Profile): fc.Arbitrary<Command> {
  const transaction = profile === 'alone' ? fc.constant(null) : fc.constantFrom(null, 0, 1, 2)
  return fc.oneof(
    {
      weight: 12,
      arbitrary: fc.record({
        do: fc.constant('publish'),
        events: batch,
        transaction,
        idle: fc.constantFrom(null, null, 0, 1, 2),
      }),
    },
    ...(profile === 'alone'
      ? []
      : [
          {
            weight: 6,
            arbitrary: fc.record({
              do: fc.constant('end' as const),
              transaction: fc.nat({ max: 2 }),
              how: fc.constantFrom('commit' as const, 'commit' as const, 'rollback' as const),
            }),
          },
        ]),
    { weight: 12, arbitrary: fc.record({ do: fc.constant('admit'), process: fc.nat({ max: 1 }) }) },
    { weight: 14, arbitrary: lease },
    {
      weight: 5,
      arbitrary: fc.record({
        do: fc.constant('heartbeat'),
        lease: index,
        minutes,
        begun: fc.nat({ max: 3 }),
      }),
    },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('release'), lease: index }) },
    {
      weight: 16,
      arbitrary: fc.record({
        do: fc.constant('settle'),
        items: fc.array(settleItem, { minLength: 1, maxLength: 5, size: 'max' }),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        do: fc.constant('completeIn'),
        claim: index,
        meanwhile: fc.constantFrom('nothing', 'reclaim', 'heartbeat'),
        how: fc.constantFrom('commit', 'rollback'),
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('crash'), worker: fc.nat({ max: 2 }) }) },
    { weight: 6, arbitrary: fc.record({ do: fc.constant('move'), minutes: fc.integer({ min: 1, max: 6 }) }) },
    { weight: 6, arbitrary: fc.constant({ do: 'reclaim' }) },
    { weight: 4, arbitrary: fc.constant({ do: 'expire' }) },
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant('redrive'),
        letters: fc.array(index, { minLength: 1, maxLength: 4 }),
      }),
    },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('reset'), event: index }) },
    {
      weight: 2,
      arbitrary: fc.record({
        do: fc.constant('cancel'),
        events: fc.array(index, { minLength: 1, maxLength: 3 }),
      }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('bury'), delivery: index }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('hasten'), delivery: index }) },
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constant('unblock'),
        lane: index,
        verb: fc.constantFrom('skip', 'discard', 'retry'),
      }),
    },
  ) as fc.Arbitrary<Command>
}
