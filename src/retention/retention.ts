import { randomUUID } from 'node:crypto'
import { checkOptions, type NamesOf } from '../domain/known-names.ts'
import { keepAuditMsMin, keepMsMax, type RetentionConfig } from '../domain/retention-times.ts'
import { integer } from '../domain/subscription.ts'
import { readReason } from '../domain/text.ts'
import { listEventTypes } from '../events/event-type.ts'
import { recordAction } from '../keys/admin-log.ts'
import { countPrunable } from './count-prunable.ts'
import { formerOwed } from './former-owed.ts'
import { pruneAll, pruneOneStep, type RetentionParts } from './prune.ts'
import { type Purged, purge } from './purge.ts'
import { takePruneTurn } from './retention-walk.ts'
import { readStorage, type StoredTable } from './storage.ts'

export type { RetentionObserver, RetentionParts } from './prune.ts'

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
  olderThanMs: true,
  deadLettersOlderThanMs: true,
  archiveDirectory: true,
  dryRun: true,
  by: true,
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

/** What is kept and for how long, what goes, and how much there is. */
export interface Retention {
  /** Removes all that need not be kept any longer, now; upkeep does the same little by little. */
  prune(options?: PruneOptions): Promise<Pruned>
  /**
   * Erases what a finished event said, and keeps its audit; the event is never delivered again. Throws NOT_FOUND, or
   * NOT_FINISHED while something of the event waits or is under way. Doing it twice is doing it once.
   */
  purge(eventId: number, reason: string, terms?: PurgeTerms): Promise<Purged>
  /** How much is stored of what, and how long it is kept. */
  storage(): Promise<Storage>
  /** One step of pruning, if it is this process's turn, for upkeep. True: there is more. */
  step(): Promise<boolean>
  /** The subscriptions that an event was owed to which is gone. */
  formerOwed(eventId: number): Promise<number[]>
}

/** Longer than a step and the pause after it take. */
const turnMs = 10_000

export function createRetention(parts: RetentionParts): Retention {
  const { db, config } = parts
  const holder = randomUUID()
  return {
    async prune(options = {}) {
      checkOptions(options, pruneNames, 'prune')
      const wanted = withOptions(config, options)
      if (options.dryRun === true) {
        const { deadLetters, events, auditedEvents } = await countPrunable(db, wanted)
        return { removed: { dead_letters: deadLetters, events }, auditedEvents }
      }
      await recordAction(db, {
        actor: options.by ?? 'library',
        action: 'prune',
        details: toDetails(wanted),
      })
      return { removed: await pruneAll({ ...parts, config: wanted }) }
    },
    async purge(eventId, reason, { by = 'library', remote = null } = {}) {
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
      const isOurTurn = await takePruneTurn(db, { holder, turnMs })
      return isOurTurn && pruneOneStep(parts)
    },
    formerOwed: (eventId) => formerOwed(db, eventId),
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

/** As the admin log writes things. */
function toDetails(config: RetentionConfig): Record<string, unknown> {
  return {
    keep_finished_ms: config.keepFinishedMs,
    keep_audit_ms: config.keepAuditMs,
    keep_dead_letters_ms: config.keepDeadLettersMs,
    archived: config.archiveDirectory !== undefined,
  }
}
