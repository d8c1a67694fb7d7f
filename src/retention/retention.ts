import { randomUUID } from 'node:crypto'
import type { Database } from '../db/database.ts'
import { checkOptions, type NamesOf } from '../domain/known-names.ts'
import { keepAuditMsMin, keepMsMax, type RetentionConfig } from '../domain/retention.ts'
import { integer } from '../domain/subscription.ts'
import { readReason } from '../domain/text.ts'
import { recordAction } from '../operations/admin-log.ts'
import { countOldEvents, countPrunableRest } from '../operations/count-prunable.ts'
import { listEventTypes } from '../operations/event-type.ts'
import { formerOwed } from '../operations/former-owed.ts'
import { takePruneTurn } from '../operations/prune-turn.ts'
import { type Purged, purge } from '../operations/purge.ts'
import { restartWalk } from '../operations/retention-walk.ts'
import { readStorage, type StoredTable } from '../operations/storage.ts'
import { pruneVerbs, type Verb, type VerbStep } from './verbs.ts'

export interface RetentionParts {
  readonly db: Database
  readonly config: RetentionConfig
  readonly observe: RetentionObserver
}

export interface RetentionObserver {
  /** Rows of a table were removed. */
  pruned(table: string, rows: number): void
  failed(error: unknown, doing: string): void
}

export interface PruneOptions {
  /** Instead of the hub's `keepFinishedMs`, and of `keepAuditMs`, which is a day at least. Types keep their own. */
  readonly olderThanMs?: number
  /** Instead of the hub's `keepDeadLettersMs`. */
  readonly deadLettersOlderThanMs?: number
  /** Instead of the hub's `archiveDirectory`. */
  readonly archiveDirectory?: string
  /** Only counts what would go. */
  readonly dryRun?: boolean
  /** Who asks for it, for the admin log. */
  readonly by?: string
}

const pruneNames: NamesOf<PruneOptions> = {
  ...{ olderThanMs: true, deadLettersOlderThanMs: true, archiveDirectory: true, dryRun: true, by: true },
}

export interface Pruned {
  /** Rows by table. Of a dry run only events and dead letters are counted. */
  readonly removed: Readonly<Record<string, number>>
  /** Of a dry run: events that are gone already, whose audit would follow. */
  readonly auditedEvents?: number
}

export interface Storage {
  readonly tables: readonly StoredTable[]
  readonly policies: RetentionConfig & { readonly types: readonly { type: string; keepMs: number }[] }
}

export interface PurgeTerms {
  readonly by?: string
  readonly remote?: string | null
}

/** Longer than a step and the pause after it take. */
const turnMs = 10_000

/** What is kept and for how long, what goes, and how much there is. */
export class Retention {
  readonly #parts: RetentionParts
  readonly #holder = randomUUID()

  constructor(parts: RetentionParts) {
    this.#parts = parts
  }

  /**
   * One step of everything that is due, if it is this process's turn, for upkeep. What fails keeps nothing else from being
   * done. True: there is more.
   */
  async step(): Promise<boolean> {
    const { db, config, observe } = this.#parts
    if (!(await takePruneTurn(db, { holder: this.#holder, turnMs }))) return false
    let more = false
    for (const verb of pruneVerbs(db, config, await listEventTypes(db))) {
      try {
        more = (await this.#take(verb, 'when due')).more || more
      } catch (error) {
        observe.failed(error, verb.doing)
      }
    }
    return more
  }

  /** Removes all whose time is over, now and without pauses. What fails is thrown, and what was done stays done. */
  async prune(options: PruneOptions = {}): Promise<Pruned> {
    const { db } = this.#parts
    checkOptions(options, pruneNames, 'prune')
    const terms = this.#terms(options)
    if (options.dryRun === true) return this.#count(terms)
    await recordAction(db, { actor: options.by ?? 'library', action: 'prune', details: toDetails(terms) })
    const removed: Record<string, number> = {}
    for (const verb of pruneVerbs(db, terms, await listEventTypes(db))) {
      if (verb.walk !== undefined) await restartWalk(db, verb.walk)
      for (let more = true; more; ) {
        const step = await this.#take(verb, 'now')
        for (const [table, rows] of Object.entries(step.removed))
          removed[table] = (removed[table] ?? 0) + rows
        more = step.more
      }
    }
    return { removed }
  }

  /**
   * Erases what a finished event said, and keeps its audit. It is never delivered again. Throws NOT_FOUND, or
   * NOT_FINISHED while something of it waits or is under way. Doing it twice is doing it once.
   */
  purge(
    eventId: number,
    reason: string,
    { by = 'library', remote = null }: PurgeTerms = {},
  ): Promise<Purged> {
    const details = { reason: readReason(reason) }
    const action = { actor: by, action: 'event.purge', target: String(eventId), details, remote }
    return purge(this.#parts.db, { eventId, action })
  }

  /** How much there is of everything, and how long it is kept. */
  async storage(): Promise<Storage> {
    const { db, config } = this.#parts
    const { keepFinishedMs, keepAuditMs, keepDeadLettersMs, archiveDirectory } = config
    const types = (await listEventTypes(db)).flatMap(({ type, keepMs }) =>
      keepMs === null ? [] : [{ type, keepMs }],
    )
    const policies = { keepFinishedMs, keepAuditMs, keepDeadLettersMs, archiveDirectory, types }
    return { tables: await readStorage(db), policies }
  }

  /** Whom an event was owed to that is gone. */
  formerOwed(eventId: number): Promise<number[]> {
    return formerOwed(this.#parts.db, eventId)
  }

  async #take(verb: Verb, turn: Parameters<Verb['step']>[0]): Promise<VerbStep> {
    const step = await verb.step(turn)
    for (const [table, rows] of Object.entries(step.removed)) {
      if (rows > 0) this.#parts.observe.pruned(table, rows)
    }
    return step
  }

  #terms({ olderThanMs, deadLettersOlderThanMs, archiveDirectory }: PruneOptions): RetentionConfig {
    const { config } = this.#parts
    const older = olderThanMs === undefined ? undefined : integer('olderThanMs', olderThanMs, 0, keepMsMax)
    return {
      keepFinishedMs: older ?? config.keepFinishedMs,
      keepAuditMs: older === undefined ? config.keepAuditMs : Math.max(older, keepAuditMsMin),
      keepDeadLettersMs: integer(
        'deadLettersOlderThanMs',
        deadLettersOlderThanMs ?? config.keepDeadLettersMs,
        0,
        keepMsMax,
      ),
      archiveDirectory: archiveDirectory ?? config.archiveDirectory,
    }
  }

  async #count(terms: RetentionConfig): Promise<Pruned> {
    const { db } = this.#parts
    let events = await countOldEvents(db, { type: null, keepMs: terms.keepFinishedMs })
    for (const { type, keepMs } of await listEventTypes(db)) {
      if (keepMs !== null) events += await countOldEvents(db, { type, keepMs })
    }
    const { deadLetters, auditedEvents } = await countPrunableRest(db, terms)
    return { removed: { dead_letters: deadLetters, events }, auditedEvents }
  }
}

/** As the admin log writes things. */
function toDetails(terms: RetentionConfig): Record<string, unknown> {
  return {
    keep_finished_ms: terms.keepFinishedMs,
    keep_audit_ms: terms.keepAuditMs,
    keep_dead_letters_ms: terms.keepDeadLettersMs,
    archived: terms.archiveDirectory !== undefined,
  }
}
