import { randomUUID } from 'node:crypto'
import { checkOptions, type NamesOf } from '../domain/known-names.ts'
import { keepAuditMsMin, keepMsMax, type RetentionConfig } from '../domain/retention-times.ts'
import { integer } from '../domain/subscription.ts'
import { readReason } from '../domain/text.ts'
import { listEventTypes } from '../events/event-type.ts'
import { recordAction } from '../keys/admin-log.ts'
import { formerOwed } from './audit-statements.ts'
import { countPrunable } from './count-prunable.ts'
import { pruneAll, pruneOneStep, type RetentionParts } from './prune.ts'
import { takePruneTurn } from './prune-statements.ts'
import { type Purged, purge } from './purge.ts'
import { readStorage, type StoredTable } from './storage.ts'

export interface PruneOptions {
  /** Replaces the hub's `keepFinishedMs`, and `keepAuditMs`, which stays at least a day. Types keep their own times. */
  readonly olderThanMs?: number
  /** Replaces the hub's `keepDeadLettersMs`. */
  readonly deadLettersOlderThanMs?: number
  /** Replaces the hub's `archiveDirectory`. */
  readonly archiveDirectory?: string
  /** Counts what would be removed, and removes nothing. */
  readonly dryRun?: boolean
  /** Who asks, for the admin log. */
  readonly by?: string
}

const pruneNames: NamesOf<PruneOptions> = {
  olderThanMs: true,
  deadLettersOlderThanMs: true,
  archiveDirectory: true,
  dryRun: true,
  by: true,
}

export interface Pruned {
  /** Rows by table. A dry run counts only events and dead letters. */
  readonly removed: Readonly<Record<string, number>>
  /** Dry run only: events that are gone already and whose audit would be removed. */
  readonly auditedEvents?: number
}

export interface Storage {
  readonly tables: readonly StoredTable[]
  readonly policies: RetentionConfig & { readonly types: readonly { type: string; keepMs: number }[] }
}

/** Who asks, and from which address: for the admin log. */
export interface PurgeTerms {
  readonly by?: string
  readonly remote?: string | null
}

const purgeNames: NamesOf<PurgeTerms> = { by: true, remote: true }

/** Removes what need not be kept any longer, and says how much is stored. */
export interface Retention {
  /** Removes everything that need not be kept any longer, now; upkeep does the same in small steps. */
  prune(options?: PruneOptions): Promise<Pruned>
  /**
   * Erases the contents of a finished event and keeps its audit; the event is never delivered again. Purging twice has
   * the effect of purging once. Throws NOT_FOUND, or NOT_FINISHED while a delivery of the event waits or is under way.
   */
  purge(eventId: number, reason: string, terms?: PurgeTerms): Promise<Purged>
  /** How much is stored of what, and how long it is kept. */
  storage(): Promise<Storage>
  /** For upkeep: one step of pruning, if it is this process's turn. True: there is more. */
  step(): Promise<boolean>
  /** The subscriptions that a removed event was owed to. */
  formerOwed(eventId: number): Promise<number[]>
}

/**
 * Of many processes with upkeep one prunes at a time, so that the pauses between its steps are real pauses. A turn is longer
 * than a step with its pause; if the process dies, another takes over when the turn ends.
 */
const turnMs = 10_000

export function createRetention(parts: RetentionParts): Retention {
  const { db, config } = parts
  const holder = randomUUID()
  return {
    async prune(options = {}) {
      checkOptions(options, pruneNames, 'prune')
      const wanted = withOptions(config, options)
      if (options.dryRun === true) return countPrunable(db, wanted)
      await recordAction(db, { actor: options.by ?? 'library', action: 'prune', details: toDetails(wanted) })
      return { removed: await pruneAll({ ...parts, config: wanted }) }
    },
    async purge(eventId, reason, terms = {}) {
      checkOptions(terms, purgeNames, 'purge')
      const { by = 'library', remote = null } = terms
      const details = { reason: readReason(reason) }
      const action = { actor: by, action: 'event.purge', target: String(eventId), details, remote }
      return purge(db, { eventId, action })
    },
    async storage() {
      const { keepFinishedMs, keepAuditMs, keepDeadLettersMs, archiveDirectory } = config
      const types = (await listEventTypes(db)).flatMap(({ type, keepMs }) =>
        keepMs === null ? [] : [{ type, keepMs }],
      )
      const policies = { keepFinishedMs, keepAuditMs, keepDeadLettersMs, archiveDirectory, types }
      return { tables: await readStorage(db), policies }
    },
    async step() {
      const turn = await db.once(takePruneTurn(db), [holder, turnMs], { durable: false })
      return turn.length > 0 && pruneOneStep(parts)
    },
    async formerOwed(eventId) {
      const { rows } = await db.query<{ subscription: number }>(formerOwed(db).text, [eventId])
      return rows.map(({ subscription }) => subscription)
    },
  }
}

function withOptions(config: RetentionConfig, options: PruneOptions): RetentionConfig {
  const { olderThanMs, deadLettersOlderThanMs, archiveDirectory } = options
  const older = olderThanMs === undefined ? undefined : integer('olderThanMs', olderThanMs, 0, keepMsMax)
  const lettersOlder = deadLettersOlderThanMs ?? config.keepDeadLettersMs
  return {
    keepFinishedMs: older ?? config.keepFinishedMs,
    keepAuditMs: older === undefined ? config.keepAuditMs : Math.max(older, keepAuditMsMin),
    keepDeadLettersMs: integer('deadLettersOlderThanMs', lettersOlder, 0, keepMsMax),
    archiveDirectory: archiveDirectory ?? config.archiveDirectory,
  }
}

/** In the form of the admin log. */
function toDetails(config: RetentionConfig): Record<string, unknown> {
  return {
    keep_finished_ms: config.keepFinishedMs,
    keep_audit_ms: config.keepAuditMs,
    keep_dead_letters_ms: config.keepDeadLettersMs,
    archived: config.archiveDirectory !== undefined,
  }
}
